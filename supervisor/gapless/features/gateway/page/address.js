// The address behind the #: a place, and a query that keeps the reader's choices.

/** The address of a page: its room and the names behind it, and a query without its empty values (pure). */
export function address(names, query = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return `#/${names.map(encodeURIComponent).join("/")}${given.size ? `?${given}` : ""}`;
}

/** The address of the page that a problem names: its room, and names. */
export const addressOf = ([room, ...names]) => (room === "dead" ? address([room], { group: names[0], states: names[1] }) : address([room, ...names]));

/** The path of an address behind its #, and the query behind that. */
export const asked = (hash = location.hash) => hash.replace(/^#\/?/, "").split("?");

/** A choice of the address, or null. */
export const kept = (name) => new URLSearchParams(asked()[1]).get(name);

/** The address of each list as it was last shown, with its choices. */
export const lists = {};

/** Keep choices in the address ("": none). The page is not shown anew: it has them already. */
export function keep(choices) {
  const [where, query] = asked();
  const now = new URLSearchParams(query);
  for (const [name, value] of Object.entries(choices)) value ? now.set(name, value) : now.delete(name);
  history.replaceState(null, "", `#/${where}${now.size ? `?${now}` : ""}`);
  if (where in lists) lists[where] = location.hash;
}
