from consume.test_claim import x
import lease.conftest
from features.queue.holes import names
from docs.blocks import ROOT
