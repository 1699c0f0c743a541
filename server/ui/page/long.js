// Long lists: what is far from the screen is an empty place of the same height.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { html } from './base.js';

const together = 5; // items that come and go at once
const few = 200; // items that are all there all the time, so that what was unfolded stays so

const aFrame = 6; // milliseconds that drawing may take of one, so that scrolling stays even

const calls = new WeakMap(); // of each place, what takes whether it is near the screen
const due = new Set(); // places that came near and are not drawn yet
const watcher = new IntersectionObserver(
  (entries) => {
    for (const e of entries) {
      due.delete(e.target);
      if (e.isIntersecting) due.add(e.target);
      else calls.get(e.target)(false);
    }
    draw();
  },
  { rootMargin: '1500px 0px', scrollMargin: '1500px 0px' },
);

let drawing = false;
function draw() {
  if (drawing || !due.size) return;
  drawing = true;
  requestAnimationFrame(async () => {
    const until = performance.now() + aFrame;
    for (let more = true; more && due.size; more = performance.now() < until) {
      const last = [...due].pop(); // scrolling on does not wait for what was passed
      due.delete(last);
      calls.get(last)(true);
      await null; // drawn by now
    }
    drawing = false;
    draw();
  });
}

// Long shows items, each drawn by a function of the item and its place; tall is how tall one is before it was seen, in pixels.
// The one at the place wanted is always there.
export function Long({ items, draw, tall, wanted = -1 }) {
  const chunks = [];
  for (let from = 0; from < items.length; from += together) {
    const here = items.slice(from, from + together);
    const has = wanted >= from && wanted < from + together;
    chunks.push(html`<${Chunk} always=${has || items.length <= few} near=${from === 0} tall=${tall * here.length} draw=${() => here.map((item, i) => draw(item, from + i))} key=${from} />`);
  }
  return chunks;
}

function Chunk({ always, near, tall, draw }) {
  const box = useRef(null);
  const height = useRef(tall);
  const [shown, set] = useState(near);
  useLayoutEffect(() => {
    const place = box.current;
    calls.set(place, (now) => {
      if (!now && place.childElementCount) height.current = place.offsetHeight;
      set(now);
    });
    watcher.observe(place);
    return () => {
      due.delete(place);
      watcher.unobserve(place);
    };
  }, []);
  return shown || always ? html`<div ref=${box}>${draw()}</div>` : html`<div ref=${box} style=${{ height: height.current + 'px' }}></div>`;
}
