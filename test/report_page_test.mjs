// node report_page_test.mjs PLAYWRIGHT CHROMIUM FOLDER: opens the pages of FOLDER as a person would, and prints one
// JSON object: null for each case that passed, or the error. report_page_test.py makes the pages and reports the
// cases.

import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const [playwright, executablePath, folder] = process.argv.slice(2);
const {chromium} = createRequire(import.meta.url)(playwright);
const browser = await chromium.launch({executablePath, args: ['--no-sandbox']});
const found = {};

const assert = (condition, message) => { if (!condition) throw new Error(message); };

// Opens a page, and records its console messages and requests.
const open = async (name, options = {}) => {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, ...options});
  const page = await context.newPage();
  page.said = [];
  // One warning is caused by this test's reading of pixels.
  page.on('console', message => { if (!message.text().includes('willReadFrequently')) page.said.push(`console: ${message.text()}`); });
  page.on('pageerror', error => page.said.push(`error: ${error.message}`));
  page.on('request', request => { if (!request.url().startsWith('file:') || !request.isNavigationRequest()) page.said.push(`request: ${request.url()}`); });
  await page.goto(pathToFileURL(path.join(folder, name)).href);
  if (options.javaScriptEnabled !== false) await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes', null, {timeout: 30000});
  return page;
};
const quiet = page => assert(page.said.length === 0, page.said.join('; '));

const viewOf = (page, selector = '.order canvas') => page.$eval(selector, c => c.dataset.view.split(',').map(Number));
const settled = async page => { await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))); };

// The number of pixels of a canvas near one of the two colours of data.
const coloured = (page, selector) => page.$$eval(selector, canvases => canvases.map(canvas => {
  const style = getComputedStyle(document.documentElement);
  const wanted = ['--read', '--write', '--mark', '--sync'].map(name => parseInt(style.getPropertyValue(name).trim().slice(1), 16));
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 60) continue;
    if (wanted.some(c => Math.abs(data[i] - (c >> 16)) + Math.abs(data[i + 1] - (c >> 8 & 255)) + Math.abs(data[i + 2] - (c & 255)) < 24)) ++count;
  }
  return count;
}));

const test = async (name, run) => {
  try {
    await run();
    found[name] = null;
  } catch (error) {
    found[name] = String(error.message).slice(0, 500);
  } finally {
    for (const context of browser.contexts()) await context.close();
  }
};

await test('no_error_and_no_request', async () => {
  for (const name of ['sort.html', 'random.html', 'both.html', 'hostile.html', 'many.html', 'empty.html', 'stats.html']) quiet(await open(name));
});

await test('plots_are_not_blank', async () => {
  for (const name of ['sort.html', 'random.html']) {
    const page = await open(name);
    const counts = await coloured(page, 'canvas');
    assert(counts.length === (name === 'sort.html' ? 5 : 4), `${name}: ${counts.length} plots`);  // syncs have a plot of their own
    counts.forEach((count, i) => assert(count > 200, `${name}: plot ${i} has ${count} coloured pixels`));
  }
});

await test('keys_zoom_and_move', async () => {
  const page = await open('sort.html');
  const whole = await viewOf(page);
  await page.focus('.order canvas');
  const press = async key => { await page.keyboard.press(key); await settled(page); return viewOf(page); };
  const zoomed = await press('+');
  assert(zoomed[1] - zoomed[0] < (whole[1] - whole[0]) * 0.6, `zoomed to ${zoomed}`);
  const right = await press('ArrowRight');
  assert(right[0] > zoomed[0], `moved to ${right}`);
  const home = await press('Home');
  assert(home[0] === whole[0], `the beginning is ${home}`);
  for (let i = 0; i < 40; ++i) await page.keyboard.press('+');
  const deep = await press('+');
  assert(deep[1] - deep[0] <= 8.001, `single requests: ${deep}`);
  assert((await coloured(page, '.order canvas'))[0] > 50, 'single requests are not drawn');
  const shown = await press('.');
  assert(shown, '');
  const text = await page.textContent('.order .readout');
  assert(/Request \d.*(read|write) of 1\.00.MiB.*process 100/.test(text), text);
  const all = await press('0');
  assert(all[0] === whole[0] && all[1] === whole[1], `all is ${all}`);
  const time = await viewOf(page, '.curves canvas');
  await page.focus('.curves canvas');
  await page.keyboard.press('+');
  await settled(page);
  const times = await page.$$eval('.curves canvas', list => list.map(c => c.dataset.view));
  assert(new Set(times).size === 1, `the plots over time go apart: ${times}`);
  assert(Number(times[0].split(',')[1]) < time[1], times[0]);
  quiet(page);
});

await test('mouse_zooms_and_tells', async () => {
  const page = await open('sort.html');
  await page.locator('.order canvas').scrollIntoViewIfNeeded();
  const box = await page.locator('.order canvas').boundingBox();
  const whole = await viewOf(page);
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.3);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.6, {steps: 4});
  await page.mouse.up();
  await settled(page);
  const zoomed = await viewOf(page);
  assert(zoomed[0] > whole[0] && zoomed[1] < whole[1], `dragged to ${zoomed}`);
  await page.mouse.wheel(0, -300);
  await settled(page);
  const wheeled = await viewOf(page);
  assert(wheeled[1] - wheeled[0] < zoomed[1] - zoomed[0], `wheeled to ${wheeled}`);
  assert(/Request/.test(await page.textContent('.order .readout')), 'the readout is silent');
  await page.click('button:text-is("All")');
  await settled(page);
  assert((await viewOf(page))[1] === whole[1], 'the button All');
  quiet(page);
});

await test('large_traces_reach_single_requests', async () => {
  const page = await open('random.html');
  await page.focus('.order canvas');
  for (let place = 0; place < 4; ++place) {
    await page.keyboard.press('n');
    await settled(page);
    const view = await viewOf(page);
    assert(view[1] - view[0] <= 4096, `place ${place}: ${view}`);
    assert((await coloured(page, '.order canvas'))[0] > 200, `place ${place} is blank`);
    await page.keyboard.press('.');
    assert(/^Request [\d,]+: (read|write) of 4\.00.KiB/.test(await page.textContent('.order .readout')), 'no single request');
  }
  // Between places the page shows its resolution, and how to get closer.
  await page.keyboard.press('0');
  await page.evaluate(() => document.querySelector('.order canvas').focus());
  const box = await page.locator('.order canvas').boundingBox();
  await page.mouse.move(box.x + box.width * 0.31, box.y + box.height * 0.5);
  assert(/penstock report --requests \d+\.\.\d+/.test(await page.textContent('.order .readout')), await page.textContent('.order .readout'));
  quiet(page);
});

await test('syncs_are_seen', async () => {
  const page = await open('sort.html');
  const canvas = page.locator('.order canvas');
  await canvas.scrollIntoViewIfNeeded();
  const tiles = await page.innerText('.tiles');
  const count = Number(/Syncs\s+([\d,]+)/.exec(tiles)[1].replace(',', ''));
  assert(count > 100, tiles);
  const shown = () => page.$eval('.order canvas', c => Number(c.dataset.syncs));
  assert(await shown() === count, `${await shown()} of ${count} syncs`);
  // The strip above the files has a mark for each, which tells its time.
  const box = await canvas.boundingBox();
  for (let x = 0.5; x < 0.98 && !/sync/.test(await page.textContent('.order .readout')); x += 0.01) {
    await page.mouse.move(box.x + box.width * x, box.y + 14);
    await settled(page);
  }
  const told = await page.textContent('.order .readout');
  assert(/^(A sync|[\d,]+ syncs) (before|among) requests? [\d,]+.* \d.*s$/.test(told), told);
  await page.focus('.order canvas');
  await page.keyboard.press('End');
  for (let i = 0; i < 3; ++i) await page.keyboard.press('+');
  await settled(page);
  assert(await shown() < count, `${await shown()} syncs in a part`);
  quiet(page);
});

await test('narrow_screens', async () => {
  for (const name of ['sort.html', 'both.html', 'hostile.html', 'many.html', 'stats.html']) {
    const page = await open(name, {viewport: {width: 1400, height: 740}, hasTouch: true});
    for (const width of [1400, 400, 360]) {
      await page.setViewportSize({width, height: 740});
      await settled(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert(wide <= width, `${name} is ${wide} pixels wide, of ${width}`);
    }
    if (name === 'stats.html') {
      const wide = await page.$$eval('.sort .scroll', list => list.filter(e => e.scrollWidth > e.clientWidth).map(e => e.getAttribute('aria-label')));
      assert(wide.length === 0, `${name}: ${wide} scroll sideways`);
      const close = await page.$$eval('.across', list => list.flatMap(axis => {
        const marks = [...axis.children].map(mark => mark.getBoundingClientRect()).filter(box => box.width > 0);
        return marks.filter((box, i) => i > 0 && box.left < marks[i - 1].right + 2 || box.right > 400).map(box => box.left);
      }));
      assert(close.length === 0, `${name}: marks of an axis overlap at ${close}`);
    }
    const least = name === 'many.html' ? 5 : 30;  // it has few seeks
    for (const count of await coloured(page, 'canvas')) assert(count > least, `${name}: a plot with ${count} coloured pixels`);
    quiet(page);
    if (name === 'sort.html') await page.screenshot({path: path.join(folder, 'narrow.png'), fullPage: true});
    if (name === 'stats.html') await page.screenshot({path: path.join(folder, 'stats-narrow.png'), fullPage: true});
  }
});

await test('dark_mode', async () => {
  const ground = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0));
  const light = await open('sort.html', {colorScheme: 'light'});
  assert(await ground(light) > 600, 'light is not light');
  await light.screenshot({path: path.join(folder, 'light.png'), fullPage: true});
  await light.emulateMedia({colorScheme: 'dark'});
  await settled(light);
  assert(await ground(light) < 150, 'dark is not dark');
  for (const count of await coloured(light, 'canvas')) assert(count > 200, `${count} pixels in the dark's colours`);
  await light.screenshot({path: path.join(folder, 'dark.png'), fullPage: true});
  quiet(light);
});

await test('headings_are_in_order', async () => {
  for (const name of ['sort.html', 'both.html', 'stats.html', 'trace-and-sort.html']) {
    const page = await open(name);
    const levels = await page.$$eval('h1, h2, h3, h4, h5, h6', list => list.map(h => Number(h.tagName[1])));
    assert(levels[0] === 1 && levels.filter(level => level === 1).length === 1, `${name}: ${levels}`);
    assert(levels.every((level, i) => i === 0 || level <= levels[i - 1] + 1), `${name}: ${levels}`);
    const first = await page.$eval('main section h2, main section h3', h => h.textContent);
    assert(first === (name === 'both.html' ? 'At a glance' : 'What to do'), `${name} begins with ${first}`);
  }
});

await test('labels_of_phases_are_whole', async () => {
  for (const width of [360, 1280]) {
    const page = await open('stats.html', {viewport: {width, height: 740}});
    const labels = await page.$$eval('.times .track > div', list => list.map(bar => {
      const box = bar.getBoundingClientRect(), label = bar.querySelector('span').getBoundingClientRect();
      return {text: bar.textContent, shown: label.top < box.bottom - 1, fits: label.right <= box.right + 1};
    }));
    assert(labels.some(label => label.shown), `${width}: no label is shown`);
    for (const label of labels) assert(!label.shown || label.fits, `${width}: ${label.text} is cut`);
    assert((await page.innerText('.times figcaption:visible')).includes('sample 100 ms'), `${width}: the short phase has no name`);
  }
});

await test('tables_without_a_script', async () => {
  const page = await open('sort.html', {javaScriptEnabled: false});
  const text = await page.innerText('body');
  for (const word of ['/data/in.bin', '/tmp/bucket-15', 'needs JavaScript', 'Lengths of runs', 'Processes']) assert(text.includes(word), `no ${word}`);
  quiet(page);
});

await test('tables_sort_and_show_files', async () => {
  const page = await open('sort.html');
  const column = n => page.$$eval('.files tbody tr', (rows, k) => rows.map(r => Number(r.cells[k].dataset.v)), n);
  await page.click('.files th button:text("Seeks")');
  const down = await column(5);
  assert(down.every((v, i) => i === 0 || v <= down[i - 1]), `not sorted: ${down}`);
  await page.click('.files th button:text("Seeks")');
  const up = await column(5);
  assert(up.every((v, i) => i === 0 || v >= up[i - 1]), `not sorted upwards: ${up}`);
  const before = await page.$eval('.order canvas', c => Number(c.dataset.draws));
  await page.click('.files .name button');
  await settled(page);
  assert(await page.$eval('.order canvas', c => Number(c.dataset.draws)) > before, 'the picture did not move to the file');
  quiet(page);
});

await test('hostile_names_are_text', async () => {
  const page = await open('hostile.html');
  assert((await page.title()) === 'Trace of hostile.trace · penstock', await page.title());
  assert(await page.$$eval('img', list => list.length) === 0, 'an image came out of a name');
  assert(await page.$$eval('script', list => list.length) === 1, 'scripts');
  const text = await page.innerText('.files');
  assert(text.includes('</script><script>document.title'), text.slice(0, 300));
  assert(text.includes('\\u{202e}') && text.includes('\\x1b[31m\\xff'), text.slice(0, 900));
  quiet(page);
});

await test('traces_side_by_side', async () => {
  const page = await open('both.html', {viewport: {width: 1600, height: 900}});
  const boxes = await page.$$eval('article.trace', list => list.map(a => a.getBoundingClientRect().x));
  assert(boxes.length === 2 && boxes[1] > boxes[0] + 300, `at ${boxes}`);
  assert(await page.$$eval('canvas', list => list.length) === 9, 'plots');
  const times = await page.$$eval('.curves canvas', list => list.map(c => c.dataset.view));
  assert(new Set(times).size === 1, `scales of the time: ${times}`);
  await page.screenshot({path: path.join(folder, 'both.png'), fullPage: true});
  const stats = await open('stats.html');
  assert(await stats.$$eval('.stairs svg .measured, .stairs svg .predicted', list => list.filter(p => p.getAttribute('d')).length) === 2, 'the staircase');
  // Memory: every stage has its area. Bucket by bucket: each has its bars and its text.
  assert(await stats.$$eval('.chart .boxed svg', list => list.length) === 3, 'three pictures of a sort');
  assert(await stats.$$eval('.tall g', list => list.filter(g => g.querySelector('title').textContent && g.querySelectorAll('path').length === 4).length) === 32, 'the buckets');
  const sizes = await stats.$$eval('.chart svg path:not(.grid)', list => list.map(p => p.getBoundingClientRect()).filter(r => r.width > 1 && r.height > 1).length);
  assert(sizes > 100, `${sizes} shapes can be seen`);
  await stats.screenshot({path: path.join(folder, 'stats.png'), fullPage: true});
});

await test('many_files_have_names', async () => {
  const page = await open('many.html');
  const labels = () => page.$eval('.order canvas', c => JSON.parse(c.dataset.labels));
  const whole = await labels();
  assert(whole.length >= 5, `labels: ${whole}`);
  assert(whole.every(text => /^\/data\/(logs|parts)?.*… \(\d+ files, [\d.]+.[KMG]iB\)$/.test(text)), `labels: ${whole}`);
  // The marks beside the picture are offsets in files: files without names of their own have none.
  const marked = () => page.$eval('.order canvas', c => JSON.parse(c.dataset.marked));
  assert((await marked()).length === 0, `marks of ${await marked()}`);
  assert(whole.some(text => text.startsWith('/data/logs/day-')) && whole.some(text => text.startsWith('/data/parts/part-')), `labels: ${whole}`);
  await page.screenshot({path: path.join(folder, 'many.png')});
  // After zooming in, each has its own name.
  await page.click('.files .name button');
  await page.focus('.order canvas');
  for (let i = 0; i < 2; ++i) await page.keyboard.press('[');
  await settled(page);
  const close = await labels();
  assert(close.some(text => /^\/data\/(logs\/day|parts\/part)-\d{4}$/.test(text)), `labels: ${close}`);
  const marks = await marked();
  assert(marks.length > 0 && marks.every(name => close.includes(name)), `marks of ${marks}, labels: ${close}`);
  quiet(page);
});

await test('a_sort_is_read_in_seconds', async () => {
  const page = await open('stats.html');
  const bars = await page.$$eval('.times .track', list => list.map(track => [...track.children].map(bar => {
    const box = bar.getBoundingClientRect(), all = track.getBoundingClientRect();
    return {text: bar.textContent, left: (box.left - all.left) / all.width, width: box.width / all.width, tall: box.height};
  })));
  assert(bars.length === 2 && bars[0].length === 3 && bars[1].length === 3, JSON.stringify(bars));
  const [measured, predicted] = bars.map(list => list.find(bar => bar.text.startsWith('distribute')));
  assert(Math.abs(measured.width - 5 / 12.5) < 0.01 && Math.abs(predicted.width - 3.9 / 12.5) < 0.01, JSON.stringify(bars));
  assert(measured.tall > 15, JSON.stringify(measured));
  // Read, wait, sort and write have a lane each, on the same scale.
  const lanes = await page.$$eval('.times svg path', list => list.map(p => p.getBoundingClientRect().width));
  assert(lanes.length === 4 && lanes.every(width => width > 100), `${lanes}`);
  const todo = await page.innerText('.todo');
  for (const words of ['-S 2600M', '-T DIRECTORY', 'the disk was the limit'].map(w => w.toLowerCase())) assert(todo.toLowerCase().includes(words), todo);
  await page.emulateMedia({colorScheme: 'dark'});
  await page.screenshot({path: path.join(folder, 'stats-dark.png'), fullPage: true});
  quiet(page);
});

await browser.close();
fs.writeSync(1, JSON.stringify(found));
