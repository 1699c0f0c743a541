// Long lists: what is far from the screen is an empty place of the same height.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { html } from './base.js';

const together = 5; // items that come and go at once
const block = 100; // items whose places do: a browser looks at every place in every frame
const few = 200; // items that are all there all the time, so that what was unfolded stays so

const aFrame = 6; // milliseconds that drawing may take of one, so that scrolling stays even

const calls = new WeakMap(); // of each place, what takes whether it is near the screen
const due = new Set(); // places that came near and are not drawn yet

const watch = (margin, see) => new IntersectionObserver((entries) => entries.forEach(see), { rootMargin: margin + 'px 0px', scrollMargin: margin + 'px 0px' });

// Blocks come before the items in them, and cost little.
const blocks = watch(4000, (e) => calls.get(e.target)(e.isIntersecting));
const items = watch(1500, (e) => {
  due.delete(e.target);
  if (e.isIntersecting) due.add(e.target);
  else calls.get(e.target)(false);
  draw();
});

let drawing = false;
function draw(from = scrollY) {
  if (drawing || !due.size) return;
  drawing = true;
  requestAnimationFrame(async () => {
    const now = scrollY;
    const until = performance.now() + aFrame;
    // Where a frame goes by more than a screen, nobody reads, and what is drawn is past before it shows.
    for (let more = Math.abs(now - from) < innerHeight; more && due.size; more = performance.now() < until) {
      const last = [...due].pop(); // scrolling on does not wait for what was passed
      due.delete(last);
      calls.get(last)(true);
      await null; // drawn by now
    }
    drawing = false;
    draw(now);
  });
}

// Long shows items, each drawn by a function of the item and its place; tall is how tall one is before it was seen, in pixels.
// The one at the place wanted is always there.
export function Long({ items: all, draw: drawItem, tall, wanted = -1 }) {
  const heights = useRef(new Map()).current; // that were seen, by place
  const places = (from, to, size, watcher, inside) => {
    const parts = [];
    for (let at = from; at < to; at += size) {
      const end = Math.min(at + size, to);
      const has = wanted >= at && wanted < end;
      parts.push(html`<${Place} watcher=${watcher} always=${has || all.length <= few} near=${at === 0} heights=${heights} at=${size + '/' + at} tall=${tall * (end - at)} draw=${() => inside(at, end)} key=${at} />`);
    }
    return parts;
  };
  const some = (from, to) => all.slice(from, to).map((item, i) => drawItem(item, from + i));
  return places(0, all.length, block, blocks, (from, to) => places(from, to, together, items, some));
}

function Place({ watcher, always, near, heights, at, tall, draw: drawAll }) {
  const box = useRef(null);
  const [shown, set] = useState(near);
  useLayoutEffect(() => {
    const place = box.current;
    calls.set(place, (now) => {
      if (!now && place.childElementCount) heights.set(at, place.offsetHeight);
      set(now);
    });
    watcher.observe(place);
    return () => {
      due.delete(place);
      watcher.unobserve(place);
    };
  }, []);
  return shown || always ? html`<div ref=${box}>${drawAll()}</div>` : html`<div ref=${box} style=${{ height: (heights.get(at) || tall) + 'px' }}></div>`;
}
