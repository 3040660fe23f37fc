import '../../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Rates } from '../../../src/cli/top/model.js'
import { initial, type Key, press, type State } from '../../../src/cli/top/state.js'
import { leakCheck } from '../../support/leaks.js'

after(leakCheck)

const rows = new Rates().rows(
  ['a', 'b', 'c'].map((name) => ({ name, holders: [], waiters: [], lastToken: 0 })),
  0,
)

const holder = (token: number) => ({
  ...{ attempt: `${token}`, mode: { kind: 'shared' } as const, token, heldFor: 1, expiresIn: 1_000 },
})

/** Presses characters and `<named keys>`, and tells every action. */
function type(keys: string, from: Partial<State> = {}): { state: State; actions: unknown[] } {
  let state: State = { ...initial, ...from }
  const actions: unknown[] = []
  for (const [, named, text] of keys.matchAll(/<(\w+)>|(.)/g)) {
    const key: Key = named === undefined ? { text } : { name: named }
    const next = press(state, key, rows, 2)
    state = next.state
    if (next.action !== undefined) actions.push(next.action)
  }
  return { state, actions }
}

test('the cursor moves by lines and pages, and stops at the ends', () => {
  for (const [keys, selected] of [
    ['j', 'b'],
    ['jjjjj', 'c'],
    ['jk', 'a'],
    ['k', 'a'],
    ['<pagedown>', 'c'],
    ['G', 'c'],
    ['Gg', 'a'],
    ['<down><down>', 'c'],
  ] as const)
    assert.equal(type(keys).state.selected, selected, keys)
})

test('the keys mean the row that is marked, also when the name chosen before was filtered out or is gone', () => {
  for (const selected of ['c', 'gone', undefined]) {
    const [only] = rows.filter(({ name }) => name === 'b')
    assert.ok(only !== undefined)
    const from = { ...initial, selected, filter: 'b' }
    const opened = press(from, { name: 'return' }, [only], 2).state
    assert.deepEqual([opened.view, opened.selected], ['one', 'b'])
    const asked = press(from, { text: 'F' }, [only], 2).state
    assert.deepEqual([asked.asking, asked.selected], ['force', 'b'])
  }
  const looking = { ...initial, selected: 'gone', view: 'one' } as const
  assert.equal(press(looking, { text: 'F' }, rows, 2).state.message, 'there is nothing to release')
})

test('the view of one name scrolls to its end and no further', () => {
  const scroll = (keys: Key[], end: number) =>
    keys.reduce<State>((state, key) => press(state, key, rows, 10, end).state, {
      ...initial,
      view: 'one',
      selected: 'a',
    }).scroll
  assert.equal(scroll([{ name: 'end' }], 30), 30)
  assert.equal(
    scroll([{ name: 'pagedown' }, { name: 'pagedown' }, { name: 'pagedown' }, { name: 'pagedown' }], 30),
    30,
  )
  assert.equal(scroll([{ name: 'end' }, { name: 'up' }], 30), 29)
  assert.equal(scroll([{ name: 'end' }, { name: 'home' }], 30), 0)
  assert.equal(scroll([{ name: 'down' }], 0), 0)
})

test('only y after F forces a release; anything else is no', () => {
  assert.deepEqual(type('jFy').actions, [{ force: 'b', seen: [] }])
  for (const keys of ['jFn', 'jF<return>', 'jFY', 'jF<escape>', 'jF '])
    assert.deepEqual(type(keys).actions, [], keys)
  assert.equal(type('jFn').state.message, 'nothing was released')
  assert.deepEqual(type('y').actions, [])
})

test('a forced release is meant for the holders on the screen when the question was asked', () => {
  const held = (...tokens: number[]) =>
    new Rates().rows(
      [{ name: 'a', holders: tokens.map((token) => holder(token)), waiters: [], lastToken: 0 }],
      0,
    )
  const asked = press(initial, { text: 'F' }, held(7, 8), 2).state
  // A list that came between the question and the answer.
  assert.deepEqual(press(asked, { text: 'y' }, held(8, 9), 2).action, { force: 'a', seen: ['7', '8'] })
})

test('a filter is typed, corrected, kept by Enter, cleared by Escape', () => {
  assert.equal(type('/abq<backspace>').state.filter, 'ab')
  assert.deepEqual(type('/q').actions, [], 'q is a letter there')
  const kept = type('/ab<return>').state
  assert.deepEqual([kept.filter, kept.asking], ['ab', undefined])
  assert.equal(type('/ab<escape>').state.filter, '')
  assert.equal(type('<escape>', { filter: 'x' }).state.filter, '')
  assert.equal(press({ ...initial, asking: 'filter' }, { text: '\x1b' }, rows, 2).state.filter, '')
})

test('q leaves a view, then the program; ^C leaves from everywhere', () => {
  const looking = type('<return>')
  assert.deepEqual([looking.state.view, looking.state.selected], ['one', 'a'])
  assert.deepEqual(type('<return>q').actions, [])
  assert.deepEqual(type('<return>qq').actions, ['quit'])
  for (const asking of ['filter', 'force'] as const)
    assert.equal(press({ ...initial, asking }, { name: 'c', ctrl: true }, rows, 2).action, 'quit')
})

test('p pauses, s sorts, r lists again, ? helps', () => {
  assert.equal(type('p').state.paused, true)
  assert.equal(type('pp').state.paused, false)
  assert.equal(type('s').state.sort, 'held')
  assert.equal(type('ssss').state.sort, 'waiting')
  assert.deepEqual(type('r').actions, ['refresh'])
  assert.equal(type('?').state.view, 'help')
})
