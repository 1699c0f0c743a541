// The tail of events: one connection for the whole page, which goes on by itself after the last event that it had.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from './base.js';

const kinds = ['exchange.created', 'exchange.completed', 'turn.digested', 'missed'];
const pause = 3000; // milliseconds until a refused connection is tried again

const listeners = new Set();
const watchers = new Set();
let source = null;
let state = 'connecting';
let last = '';

function become(next) {
  if (state === next) return;
  state = next;
  watchers.forEach((f) => f(next));
}

function connect() {
  if (source || !listeners.size) return;
  const mine = new EventSource('/ui/v1/memory/events' + (last ? '?after=' + encodeURIComponent(last) : ''));
  source = mine;
  mine.onopen = () => {
    const away = state === 'lost';
    become('live');
    if (away) listeners.forEach((f) => f('missed', {})); // a server that began again does not know what it said before
  };
  mine.onerror = () => {
    if (source !== mine) return;
    become('lost');
    if (mine.readyState !== EventSource.CLOSED) return; // else it tries again by itself
    source = null;
    api('/session').then(
      () => setTimeout(connect, pause),
      (error) => error.status !== 401 && setTimeout(connect, pause), // who is not signed in is asked to be
    );
  };
  for (const kind of kinds) {
    mine.addEventListener(kind, (e) => {
      if (e.lastEventId) last = e.lastEventId;
      const event = kind === 'missed' ? {} : JSON.parse(e.data);
      listeners.forEach((f) => f(kind, event));
    });
  }
}

// useTail calls a function with every event: its kind and what it says. After "missed" events are not known and lists have
// to be read again.
export function useTail(f) {
  const now = useRef(f);
  now.current = f;
  useEffect(() => {
    const listener = (kind, event) => now.current(kind, event);
    listeners.add(listener);
    connect();
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
