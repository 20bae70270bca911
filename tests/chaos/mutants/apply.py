def mutate(name):
    pass
