// The tail of events: one connection for all tabs of the page, since browsers open six to a server. The tab that has the lock
// has the connection and passes on what comes; when it is left, the next one goes on after the last event.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from './base.js';

const kinds = ['exchange.created', 'exchange.completed', 'turn.digested', 'missed'];
const pause = 3000; // milliseconds until a refused connection is tried again

const listeners = new Set();
const watchers = new Set();
const tabs = navigator.locks ? new BroadcastChannel('mneme-tail') : { postMessage() {} }; // no locks: each has a connection of its own
let turn = null; // ends waiting for the lock, or having it
let leads = false;
let source = null;
let state = 'connecting';
let last = '';

// join has this tab lead as soon as nobody else does, and follow until then.
function join() {
  tabs.postMessage({ ask: true });
  if (turn) return;
  const mine = (turn = new AbortController());
  const lead = () => {
    leads = true;
    connect();
    return new Promise((leave) => mine.signal.addEventListener('abort', leave));
  };
  if (navigator.locks) navigator.locks.request('mneme-tail', { signal: mine.signal }, lead).catch(() => {}); // left before its turn
  else lead();
}

// Browsers keep a page that is left, to come back to, with the locks that it has and waits for.
addEventListener('pagehide', () => {
  if (turn) turn.abort();
  turn = null;
  leads = false;
  disconnect();
});
addEventListener('pageshow', (e) => {
  if (!e.persisted || !listeners.size) return;
  join();
  hear({ kind: 'missed', event: {} });
});

function tell(message) {
  tabs.postMessage(message);
  hear(message);
}

// hear takes in what the leading tab says, and what others ask of it.
function hear({ ask, again, now, kind, event, id }) {
  if (again) {
    last = '';
    disconnect();
  }
  if (leads && (ask || again)) {
    connect();
    tabs.postMessage({ now: state, id: last });
  }
  if (id) last = id;
  if (now && now !== state) {
    state = now;
    watchers.forEach((f) => f(now));
  }
  if (kind) listeners.forEach((f) => f(kind, event));
}

tabs.onmessage = (e) => hear(e.data);

// signedIn begins the tail again, which may be that of another account now.
export function signedIn() {
  tell({ again: true, kind: 'missed', event: {} });
}

function disconnect() {
  if (source) source.close();
  source = null;
}

function connect() {
  if (source || !leads) return;
  const mine = new EventSource('/ui/v1/memory/events' + (last ? '?after=' + encodeURIComponent(last) : ''));
  source = mine;
  mine.onopen = () => {
    const gap = state !== 'live' || !last; // also of a server that began again, which does not know what it said before
    tell({ now: 'live' });
    if (gap) tell({ kind: 'missed', event: {} });
  };
  mine.onerror = () => {
    if (source !== mine) return;
    tell({ now: 'lost' });
    if (mine.readyState !== EventSource.CLOSED) return; // else it tries again by itself
    source = null;
    api('/session').then(
      () => setTimeout(connect, pause),
      (error) => error.status !== 401 && setTimeout(connect, pause), // who is not signed in is asked to be
    );
  };
  for (const kind of kinds) mine.addEventListener(kind, (e) => tell({ kind, event: kind === 'missed' ? {} : JSON.parse(e.data), id: e.lastEventId }));
}

// useTail calls a function with every event: its kind and what it says. After "missed" events are not known and lists have
// to be read again.
export function useTail(f) {
  const now = useRef(f);
  now.current = f;
  useEffect(() => {
    const listener = (kind, event) => now.current(kind, event);
    listeners.add(listener);
    join();
    return () => listeners.delete(listener);
  }, []);
}

// useTailState is connecting, live or lost.
export function useTailState() {
  const [now, set] = useState(state);
  useEffect(() => {
    set(state);
    watchers.add(set);
    return () => watchers.delete(set);
  }, []);
  return now;
}
