// The conversation of a session as a tree: it forks where a client went back and asked again.

// Tree holds the turns of a session, oldest first. A turn follows the one that it continues. Requests that go on
// from nothing and that nothing goes on from, such as those that are still open or were refused, make no fork: they stand
// with the turn before them.
export class Tree {
  constructor(turns) {
    this.roots = [];
    this.nodes = new Map(); // by exchange
    this.loose = []; // in front of the first turn
    const answers = new Map(turns.filter((t) => t.exchange.response_id).map((t) => [t.exchange.response_id, t.exchange.id]));
    const parent = ({ exchange, turn }) => turn && (turn.parent || answers.get(exchange.previous_response));
    const continued = new Set(turns.map(parent));
    const order = [];
    for (const entry of turns) {
      const id = entry.exchange.id;
      const from = this.nodes.get(parent(entry));
      const before = order[order.length - 1];
      if (from || (entry.turn && (!before || continued.has(id)))) {
        const node = !from ? newNode(entry, before) : entry.turn.parent ? behind(from, entry) : after(from, entry);
        (node.before ? node.before.ways : this.roots).push(node);
        this.nodes.set(id, node);
        order.push(node);
      } else if (before) {
        before.loose.push(entry);
        this.nodes.set(id, before);
      } else {
        this.loose.push(entry);
      }
    }
    for (const node of order.reverse()) {
      for (const way of node.ways) {
        node.turns += way.turns;
        if (way.newest > node.newest) node.newest = way.newest;
      }
    }
  }

  // path gives the turns from the first one through that of an exchange to the end, at each fork behind it to the newest
  // one: [{entry, lead, ways}]. lead are messages that the turn shares with another branch, ways the nodes that there are
  // to choose from where it forks.
  path(through) {
    const nodes = [];
    for (let node = this.nodes.get(through); node; node = node.before) nodes.push(node);
    nodes.reverse();
    for (let ways = nodes.length ? nodes[nodes.length - 1].ways : this.roots; ways.length; ways = nodes[nodes.length - 1].ways) {
      nodes.push(ways.reduce((a, b) => (b.newest > a.newest ? b : a)));
    }
    const path = this.loose.map(alone);
    for (const node of nodes) {
      const ways = node.before ? node.before.ways : this.roots;
      path.push({ entry: node.entry, lead: node.lead, ways: ways.length > 1 ? ways : [] }, ...node.loose.map(alone));
    }
    return path;
  }
}

const alone = (entry) => ({ entry, lead: [], ways: [] });

const newNode = (entry, before, lead = []) => ({ entry, before, lead, ways: [], loose: [], again: null, newest: entry.exchange.id, turns: 1 });

// after puts a turn behind the one whose answer its request names, and that holds what was said before; where the same was asked
// there and failed, behind that.
function after(from, entry) {
  const asked = JSON.stringify(entry.turn.messages);
  const failed = from.ways.find((way) => !way.entry.turn.answer && JSON.stringify(way.entry.turn.messages) === asked);
  return failed ? after(failed, entry) : newNode(entry, from);
}

// behind puts a turn behind the one that its request goes on from, or, where it goes on from inside the request of that one,
// beside it. A request that is sent again after it failed follows the failed one.
function behind(from, entry) {
  const { messages = [], known = 0 } = from.entry.turn;
  const shared = (entry.turn.known || 0) - known;
  if (!entry.turn.branch || shared > messages.length) return newNode(entry, from);
  const same = shared === messages.length && !entry.turn.messages;
  let at = from;
  while (same && !at.entry.turn.answer && at.again) at = at.again;
  if (same && !at.entry.turn.answer) return (at.again = newNode(entry, at));
  if (at !== from) return newNode(entry, at.before);
  return newNode(entry, from.before, from.lead.concat(messages.slice(0, shared).map((message, i) => ({ message, exchange: from.entry.exchange.id, at: known + i }))));
}
