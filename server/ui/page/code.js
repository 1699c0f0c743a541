// Colors of code in answers: comments, texts, numbers and the words that most languages have. It knows no grammar.

const words =
  'abstract and as assert async await bool boolean break byte case catch chan char class const continue def default defer del delete do double elif else end enum except export extends extern false final finally float fn for foreach from func function go goto if impl implements import in include inline int interface is lambda let long loop map match mod module mut namespace new nil none not null or package pass private protected pub public raise range return self short static string struct super switch then this throw throws trait true try type typedef typeof undefined union unless unsafe until use using var virtual void where while with yield';
const keywords = new Set(words.split(' '));
const sql = new Set('add all alter and as asc begin between by case column commit constraint create delete desc distinct drop else end exists from full group having in index inner insert into is join key left like limit not null on or order primary references right rollback select set table then union unique update using values view when where with'.split(' '));

const texts = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/.source;
const rest = '|(' + texts + ')|\\b(\\d[\\w.]*)|([A-Za-z_]\\w*)';
const hash = new RegExp('(#.*)' + rest, 'g');
const dashes = new RegExp('(--.*|/\\*[^]*?\\*/)' + rest, 'g');
const slashes = new RegExp('(//.*|/\\*[^]*?\\*/)' + rest, 'g');
const comments = { __proto__: null, python: hash, py: hash, sh: hash, bash: hash, shell: hash, zsh: hash, yaml: hash, yml: hash, toml: hash, ruby: hash, rb: hash, make: hash, makefile: hash, dockerfile: hash, perl: hash, r: hash, sql: dashes, lua: dashes, haskell: dashes };
const prose = new Set(['', 'text', 'txt', 'plain', 'console', 'output', 'log', 'md', 'markdown']);

const most = 20000; // characters of a block that are colored

// colored gives a block of code as HTML; escape makes a text harmless.
export function colored(text, language, escape) {
  const name = (language || '').trim().toLowerCase().split(/\s/)[0];
  if (prose.has(name) || text.length > most) return escape(text);
  const mark = (kind, part) => '<span class="' + kind + '">' + escape(part) + '</span>';
  if (name === 'diff' || name === 'patch') return text.split('\n').map((line) => (line[0] === '+' ? mark('add', line) : line[0] === '-' ? mark('del', line) : escape(line))).join('\n');
  const known = name === 'sql' ? (word) => sql.has(word.toLowerCase()) : (word) => keywords.has(word);
  let out = '';
  let at = 0;
  for (const found of text.matchAll(comments[name] || slashes)) {
    const [whole, comment, string, number, word] = found;
    out += escape(text.slice(at, found.index));
    out += comment ? mark('com', whole) : string ? mark('str', whole) : number ? mark('num', whole) : word && known(word) ? mark('kw', whole) : escape(whole);
    at = found.index + whole.length;
  }
  return out + escape(text.slice(at));
}
