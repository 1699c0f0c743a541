// Texts of JSON that keep every digit: JavaScript's own numbers have no integers above 2^53, and requests do.

// scan visits the values right inside an object: the name of each, where its text begins and ends, and where the member
// does. It is for texts that JSON.parse takes.
function scan(text, visit) {
  let at = 0;
  const blank = () => {
    while (/\s/.test(text[at])) at++;
  };
  const string = () => {
    for (at++; text[at] !== '"'; at++) if (text[at] === '\\') at++;
    at++;
  };
  const value = () => {
    let depth = 0;
    do {
      if (text[at] === '"') string();
      else {
        if (text[at] === '{' || text[at] === '[') depth++;
        if (text[at] === '}' || text[at] === ']') depth--;
        at++;
      }
    } while (at < text.length && (depth > 0 || !/[,}\]\s]/.test(text[at])));
  };
  blank();
  for (at++, blank(); text[at] === '"' || text[at] === ','; blank()) {
    if (text[at] === ',') at++;
    blank();
    const name = at;
    string();
    const key = JSON.parse(text.slice(name, at));
    blank();
    at++; // the colon
    blank();
    const begin = at;
    value();
    visit(key, begin, at);
  }
}

// withModel gives a request with another model, and every other byte as it was.
export function withModel(text, model) {
  const body = JSON.parse(text);
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new Error('The request on record is no object.');
  const parts = [];
  let from = 0;
  scan(text, (key, begin, end) => {
    if (key !== 'model') return;
    parts.push(text.slice(from, begin), JSON.stringify(model));
    from = end;
  });
  if (!from) throw new Error('The request on record names no model.');
  return parts.join('') + text.slice(from);
}

// members gives the members of an object with their texts, or null where the text is no object.
export function members(text) {
  try {
    const body = JSON.parse(text);
    if (typeof body !== 'object' || body === null || Array.isArray(body)) return null;
    const all = [];
    scan(text, (key, begin, end) => all.push({ name: key, text: text.slice(begin, end), items: Array.isArray(body[key]) ? body[key].length : 0 }));
    return all;
  } catch {
    return null;
  }
}

// laidOut is a text of JSON on lines of their own, or as it is where it is none.
export function laidOut(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => '\n' + '  '.repeat(depth);
  return text.replace(/"(?:[^"\\]+|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    switch (token[0]) {
      case '{':
      case '[':
        if (token.length > 1) return token[0] + token[token.length - 1];
        depth++;
        return token + line();
      case '}':
      case ']':
        depth--;
        return line() + token;
      case ',':
        return token + line();
      case ':':
        return ': ';
      case '"':
        return token;
      default:
        return '';
    }
  });
}
