import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, go, html, Link, onSignedOut, useAddress, useKeys, useLoad, useTitle } from './base.js';
import { Accounts, lookAt, useAccounts } from './accounts.js';
import { Health } from './health.js';
import { Histories } from './histories.js';
import { Keys } from './keys.js';
import { Live } from './live.js';
import { Search } from './search.js';
import { Session } from './session.js';
import { Sessions } from './sessions.js';
import { signedIn, useTail, useTailState } from './tail.js';
import { Today } from './today.js';
import { Usage } from './usage.js';

const views = [
  ['', 'Sessions', 's'],
  ['today', 'Today', ''],
  ['live', 'Live', 'l'],
  ['search', 'Search', ''],
  ['usage', 'Usage', 'u'],
  ['keys', 'Keys', ''],
  ['health', 'Health', ''],
  ['accounts', 'Accounts', ''],
];

function App() {
  const [who, setWho] = useState(undefined); // undefined: not known yet; null: nobody
  const [expired, setExpired] = useState(false);
  const address = useAddress();
  const box = useRef(null);
  useEffect(() => {
    const hash = new URLSearchParams(location.hash.slice(1));
    const code = hash.get('code');
    const refused = hash.get('problem'); // stands for why an OpenID provider's word was not enough
    if (code || refused) history.replaceState(null, '', location.pathname + location.search);
    const first = code ? api('/session', { method: 'POST', body: { code } }) : api('/session');
    if (code) first.then(signedIn, () => {});
    first.then(setWho, (error) => setWho(code ? { problem: error.message } : { refused }));
    return onSignedOut(() => setExpired(true));
  }, []);
  useKeys({
    '/': () => box.current && (box.current.focus(), box.current.select()),
    '.': () => go('/ui/live'),
    '?': () => {
      const [menu, help] = [document.querySelector('.menu'), document.querySelector('.keys-help')];
      if (!help) return false;
      const show = !(menu.open && help.open);
      menu.open = help.open = show;
      if (show) help.querySelector('summary').focus();
      return true;
    },
  });
  const at = address.path.split('/')[0];
  useTitle(at === 'sessions' ? '' : at === 'search' && address.query.get('q') ? address.query.get('q') : at === 'import' ? 'Import' : (views.find(([path]) => path === at) || ['', 'Not found'])[1]);
  if (who === undefined) return html`<main class="blank" aria-busy="true"></main>`;
  if (who === null || !who.account) return html`<${SignIn} ...${who} done=${(w) => (setExpired(false), setWho(w))} />`;

  const [first, id] = address.path.split('/');
  const view = first === 'sessions' && id ? html`<${Session} id=${id} who=${who} key=${id} />` : viewOf(first, who);
  const search = (e) => {
    e.preventDefault();
    go('/ui/search?q=' + encodeURIComponent(box.current.value));
  };
  return html`
    <a class="skip" href="#view">Skip to content</a>
    <header class="top">
      <${Link} to="/ui/" class="brand" aria-label="mneme, sessions"><svg viewBox="0 0 16 16" aria-hidden="true"><rect width="16" height="16" rx="3.5" /><path d="M3.500 12V4.500L8 9l4.500-4.500V12" /></svg>mneme<//>
      <nav aria-label="Views">${views.filter(([path]) => path !== 'accounts' || who.scopes.includes('operator')).map(([path, name]) => {
        const here = first === path || (first === 'sessions' && path === '');
        return html`<${Link} to=${'/ui/' + path} aria-current=${here ? 'page' : null}>${name}<//>`;
      })}</nav>
      <form class="find" role="search" onSubmit=${search}>
        <input ref=${box} type="search" name="q" aria-label="Search everything" placeholder="Search everything" value=${first === 'search' ? address.query.get('q') || '' : ''} />
        <kbd aria-hidden="true">/</kbd>
      </form>
      <details class="menu">
        <summary title=${'account ' + who.account}>${who.account}</summary>
        <div>
          ${who.scopes.includes('operator') && html`<${Switch} account=${who.account} />`}
          <p>Signed in with <code>${who.key}</code><br /><small>${who.scopes.join(', ')}</small></p>
          <details class="keys-help"><summary>Keyboard</summary><dl><dt>/</dt><dd>search</dd><dt>j k</dt><dd>next, previous</dd><dt>enter</dt><dd>open</dd><dt>r t x a p</dt><dd>raw, translated, context, attempts, replay</dd><dt>.</dt><dd>live</dd><dt>?</dt><dd>this list</dd></dl></details>
          ${who.histories && html`<p><${Link} to="/ui/import">Import histories<//></p>`}
          <button onClick=${() => api('/session', { method: 'DELETE' }).then(() => setWho(null))}>Sign out</button>
          <p><small>mneme ${who.version}</small></p>
        </div>
      </details>
    </header>
    ${who.scopes.includes('read') && html`<${Away} />`}
    <main id="view" tabindex="-1" inert=${expired}>${view}</main>
    ${expired && html`<div class="veil" role="dialog" aria-modal="true" aria-label="Sign in again"><${SignIn} again=${true} done=${() => location.reload()} /></div>`}
  `;
}

// Switch is an operator's choice of the account that is shown.
function Switch({ account }) {
  const accounts = useAccounts();
  return html`<p><label>Account <select value=${account} onChange=${(e) => lookAt(e.target.value, '/ui/')}>${accounts.map((a) => html`<option value=${a.name}>${a.name}</option>`)}</select></label></p>`;
}

// Away says that the server cannot be reached, in every view.
function Away() {
  useTail(() => {});
  return useTailState() === 'lost' && html`<p class="banner away" role="status">The server cannot be reached. This page continues when it is back.</p>`;
}

function viewOf(name, who) {
  switch (name) {
    case '':
      return html`<${Sessions} who=${who} />`;
    case 'today':
      return html`<${Today} who=${who} />`;
    case 'live':
      return html`<${Live} />`;
    case 'search':
      return html`<${Search} />`;
    case 'usage':
      return html`<${Usage} />`;
    case 'keys':
      return html`<${Keys} who=${who} />`;
    case 'import':
      return html`<${Histories} who=${who} />`;
    case 'accounts':
      return html`<${Accounts} who=${who} />`;
    case 'health':
      return html`<${Health} />`;
    default:
      return html`<div class="note"><h1>Not found</h1><p>There is no such page. <${Link} to="/ui/">See the sessions<//>.</p></div>`;
  }
}

function SignIn({ problem, refused, again, done }) {
  const [error, setError] = useState(problem || '');
  const { data: openID } = useLoad('/oidc' + (refused ? '?problem=' + encodeURIComponent(refused) : ''));
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => field.current && field.current.focus(), []);
  const submit = async (e) => {
    e.preventDefault();
    setBusy(true);
    try {
      const who = await api('/session', { method: 'POST', body: { key: field.current.value } });
      signedIn();
      done(who);
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  };
  const box = again ? 'div' : 'main';
  return html`<${box} class="signin">
    <form onSubmit=${submit} aria-labelledby="signin-title">
      <h1 id="signin-title">${again ? 'Sign in again' : 'mneme'}</h1>
      <p>${again ? 'Your sign-in expired, or its key was revoked. You will return to this page.' : html`On the server’s own machine, <code>mneme ui</code> opens this page signed in. Elsewhere, enter a service key.`}</p>
      <label for="key">Service key</label>
      <input id="key" ref=${field} type="password" autocomplete="off" placeholder="mnm_…" required aria-describedby="signin-error" />
      <p id="signin-error" class="error" role="alert">${error || (openID && openID.problem)}</p>
      <p class="ends">${openID && openID.provider && html`<a class="button" href=${'/ui/oidc/start?to=' + encodeURIComponent(location.pathname + location.search)}>Sign in with ${openID.provider}</a>`}<button class="primary" disabled=${busy}>Sign in</button></p>
    </form>
  <//>`;
}

render(html`<${App} />`, document.getElementById('app'));
