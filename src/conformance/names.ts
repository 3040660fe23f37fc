import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'

/** Characters with a special meaning in some store: keys, paths, slots, patterns, statements. */
const hostile = [
  '{}',
  '{a}b',
  '}{',
  ':',
  'a::b',
  ' ',
  ' a ',
  '../..',
  '../../etc/passwd',
  '/',
  '//a/',
  '.',
  '..',
  '\\',
  '%',
  '%2F%00',
  '*?[a-z]',
  `'`,
  `"`,
  `'; drop table holdfast_locks; --`,
  '`id`$(id)',
  '$1',
  ':name',
  '?',
  '#&=+',
  'é',
  'e\u0301',
  '鎖🔒',
  '\u202egnirts',
  'a\u2028b',
  '__proto__',
  'constructor',
]

export function names(it: It, _fixture: Fixture): void {
  it('with special characters work like any other', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const suffix = context.name('')
    for (const special of hostile) {
      for (const name of [`${special}${suffix}`, `${suffix}${special}`]) {
        const lease = await a.locks.mutex(name).acquire()
        await context.assertHeld(b, name)
        const { holders } = await b.locks.inspect(name)
        assert.deepEqual(
          holders.map((holder) => holder.token),
          [lease.token],
          name,
        )
        assert.equal(await lease.release(), 'released')
        await context.assertFree(b, name)
      }
    }
  })

  it('that differ anywhere are different locks', async (context) => {
    const client = context.client()
    const suffix = context.name('')
    const similar = [
      'a:b',
      'a/b',
      'a%2Fb',
      'a%3Ab',
      'a b',
      'a  b',
      'a-b',
      'a_b',
      'A:b',
      'a:B',
      'é',
      'e\u0301',
      'e',
      '{a}:b',
      'a:{b}',
    ]
    const names = similar.map((name) => `${suffix}${name}`)
    names.push(`${suffix}`, `${suffix} `, ` ${suffix}`, `${suffix}.`)
    const leases = []
    for (const name of names) leases.push(await client.locks.mutex(name).acquire({ wait: context.timeout }))
    assert.equal(leases.filter((lease) => lease.isHeld).length, names.length)
    await Promise.all(leases.map((lease) => lease.release()))
  })

  it('may be 512 bytes long, and the last byte counts', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const start = context.name('')
    const long = start + 'x'.repeat(511 - start.length)
    const wide = start + '🔒'.repeat(Math.floor((512 - start.length) / 4))
    for (const [one, other] of [
      [`${long}1`, `${long}2`],
      [wide, `${wide.slice(0, -2)}🔓`],
    ] as const) {
      const lease = await a.locks.mutex(one).acquire()
      const second = await b.locks.mutex(other).acquire({ wait: context.timeout })
      await context.assertHeld(b, one)
      await Promise.all([lease.release(), second.release()])
    }
  })

  it('that are empty, too long, not text or have control characters are refused before anything is sent', async (context) => {
    const client = context.client()
    const { locks } = client
    for (const bad of ['', 'x'.repeat(513), '🔒'.repeat(129), 'a\0b', 'a\nb', '\u007f', '\u0085']) {
      assert.throws(() => locks.mutex(bad), RangeError, JSON.stringify(bad))
      await assert.rejects(locks.inspect(bad), RangeError)
    }
    for (const bad of [undefined, null, 7, {}, [], 'a\ud800'])
      assert.throws(() => locks.mutex(bad as string), TypeError)
    assert.equal(client.asked(), 0)
  })
}
