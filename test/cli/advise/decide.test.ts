// What `holdfast advise` decides, answer by answer; that its options are ones the library takes; and that what it says of a driver stands
// on that driver's page.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import type { Answers, Store } from '../../../src/cli/advise/answers.js'
import { questions, stores } from '../../../src/cli/advise/answers.js'
import { type Advice, decide } from '../../../src/cli/advise/decide.js'
import { drivers } from '../../../src/cli/advise/drivers.js'
import { formatTime } from '../../../src/cli/advise/options.js'
import { read } from '../../support/checkout.js'
import { leakCheck } from '../../support/leaks.js'

const s = 1_000
const usual: Answers = { machines: 'many', run: ['redis'], double: 'costly', section: 30 * s, waiters: 5 }

const table: readonly (readonly [Partial<Answers>, driver: string, guard: Advice['guard']['needed']])[] = [
  [{ machines: 'one', run: [] }, 'local', 'advised'],
  [{ machines: 'one', run: ['redis', 'postgres'], double: 'harmless' }, 'local', 'no'],
  [{ machines: 'one', run: ['postgres'], double: 'never' }, 'local', 'required'],
  [{ run: [], double: 'harmless' }, 'redis', 'no'],
  [{ run: [], double: 'costly' }, 'etcd', 'advised'],
  [{ run: [], double: 'never' }, 'etcd', 'required'],
  ...stores.flatMap((store) => [
    [{ run: [store], double: 'harmless' }, store, 'no'] as const,
    [{ run: [store], double: 'never' }, store, 'required'] as const,
  ]),
  [{ run: ['mysql', 'redis'], double: 'harmless' }, 'redis', 'no'],
  [{ run: ['postgres', 'redis'], double: 'harmless' }, 'redis', 'no'],
  [{ run: ['redis', 'postgres'], double: 'costly' }, 'postgres', 'advised'],
  [{ run: ['redis', 'postgres', 'etcd'], double: 'costly' }, 'etcd', 'advised'],
  [{ run: ['consul', 'zookeeper'], double: 'never' }, 'zookeeper', 'required'],
  // Too many waiters for those whose waiters keep asking, or keep a connection of an agent.
  [{ run: ['redlock', 'mysql'], double: 'harmless', waiters: 5 }, 'redlock', 'no'],
  [{ run: ['redlock', 'mysql'], double: 'harmless', waiters: 50 }, 'mysql', 'no'],
  [{ run: ['consul', 'postgres'], double: 'costly', waiters: 100 }, 'consul', 'advised'],
  [{ run: ['consul', 'postgres'], double: 'costly', waiters: 500 }, 'postgres', 'advised'],
  // All that is there is crowded: the best of it, and a word about that.
  [{ run: ['mysql'], double: 'costly', waiters: 5_000 }, 'mysql', 'advised'],
]

const every: readonly Answers[] = (['one', 'many'] as const).flatMap((machines) =>
  ([[], ...stores.map((store) => [store]), ['redis', 'postgres']] as Store[][]).flatMap((run) =>
    (['harmless', 'costly', 'never'] as const).flatMap((double) =>
      [1, 2 * s, 30 * s, 3_600 * s, 366 * 86_400 * s].flatMap((section) =>
        [0, 1, 100, 100_000].map((waiters) => ({ machines, run, double, section, waiters })),
      ),
    ),
  ),
)

const option = (advice: Advice, name: string) =>
  [...advice.options, ...advice.lock].find((one) => one.name === name)?.value

describe('advise decides', () => {
  for (const [answers, driver, guard] of table) {
    it(`${driver}, guard ${guard}, for ${JSON.stringify(answers)}`, () => {
      const advice = decide({ ...usual, ...answers })
      assert.equal(advice.driver, driver)
      assert.equal(advice.guard.needed, guard)
    })
  }

  it('a store to start only where there is none', () => {
    assert.equal(decide({ ...usual, run: [] }).toStart, true)
    assert.equal(decide(usual).toStart, false)
    assert.equal(decide({ ...usual, machines: 'one', run: [] }).toStart, false)
  })

  it('a short ttl for short sections, and a bound for sections that hang', () => {
    const short = decide({ ...usual, section: 2 * s })
    assert.equal(option(short, 'ttl'), '10s')
    assert.equal(option(short, 'maxTtl'), 10_000)
    assert.equal(option(short, 'maxHold'), '6s')
    const long = decide({ ...usual, section: 600 * s })
    assert.equal(option(long, 'ttl'), undefined)
    assert.equal(option(long, 'maxHold'), '30m')
    // A crashed process frees the lock with its connection or session, whatever the ttl.
    assert.equal(option(decide({ ...usual, machines: 'one', section: s }), 'ttl'), undefined)
    assert.equal(option(decide({ ...usual, run: ['zookeeper'], section: s }), 'ttl'), undefined)
  })

  it('a wait that the last waiter survives, and order where many wait', () => {
    const many = decide({ ...usual, section: 30 * s, waiters: 100 })
    assert.equal(option(many, 'wait'), '75m')
    assert.equal(option(many, 'fair'), true)
    assert.equal(option(decide({ ...usual, section: s, waiters: 5 }), 'wait'), undefined)
    assert.equal(option(decide({ ...usual, waiters: 0 }), 'wait'), 0)
    assert.equal(option(decide({ ...usual, run: ['redlock'], waiters: 15 }), 'fair'), undefined)
    assert.equal(option(decide({ ...usual, run: ['mysql'], waiters: 15 }), 'wakeWithGetLock'), true)
    assert.match(decide({ ...usual, section: 60 * s, waiters: 100 }).weak[0] ?? '', /waits for about 100m/)
    assert.match(
      decide({ ...usual, run: ['mysql'], section: s, waiters: 500 }).weak.join('\n'),
      /500 waiters are many for mysql/,
    )
  })

  it('a lock inside the transaction, where that would do', () => {
    const short = { ...usual, run: ['postgres'], section: s, waiters: 3 } as const
    assert.match(decide(short).instead.join('\n'), /inTransaction\(\) of holdfast\/postgres/)
    assert.doesNotMatch(decide({ ...short, section: 60 * s }).instead.join('\n'), /inTransaction/)
    assert.doesNotMatch(decide({ ...short, waiters: 100 }).instead.join('\n'), /inTransaction/)
  })
})

describe('what advise says', () => {
  it('of a driver stands on the page of that driver', () => {
    for (const [name, { weak }] of Object.entries(drivers)) {
      const page = plain(read(`docs/drivers/${name}.md`))
      for (const { says } of weak)
        assert.ok(page.includes(plain(says)), `docs/drivers/${name}.md lacks: ${says}`)
    }
  })

  it('names options that the driver has, and pages that exist', () => {
    for (const answers of every) {
      const { driver, options, pages } = decide(answers)
      for (const { name } of options) {
        const source = read(`src/drivers/${driver}/options.ts`)
        assert.match(source, new RegExp(`readonly ${name}\\?:`), `${driver} has no option ${name}`)
      }
      for (const page of pages) {
        const [path = '', anchor] = page.split('#')
        const heading = anchor?.split('-').join('.* ')
        assert.match(read(path), new RegExp(`^#+ .*${heading ?? ''}`, 'mi'), page)
      }
    }
  })

  it('names options of the lock that the library takes, for every answer', async () => {
    const locks = createLocks(memory())
    for (const [i, answers] of every.entries()) {
      const { lock, why, weak, code } = decide(answers)
      const options = Object.fromEntries(lock.map(({ name, value }) => [name, value]))
      // Each has a name of its own: a lease that is over by its `maxHold` before it is released keeps the name for a while.
      const lease = await locks.mutex(`advised ${i}`, options).tryAcquire()
      assert.ok(lease !== undefined)
      await lease.release()
      for (const line of [...why, ...weak]) assert.doesNotMatch(line, /undefined|NaN|Infinity/)
      assert.doesNotMatch(code, /OPTIONS|undefined/)
    }
    await locks.close()
  })

  it('begins with an import that there is, and a call of what it imports', async () => {
    for (const [name, { code }] of Object.entries(drivers)) {
      const exported = (await import(`holdfast/${name}`)) as Record<string, unknown>
      assert.equal(typeof exported[name], 'function', name)
      assert.ok(code.includes(`import { ${name} } from 'holdfast/${name}'`), name)
      assert.ok(
        code.some((line) => line.includes(`createLocks(${name}(`)),
        name,
      )
    }
  })

  it('follows the ladder: the last rung is a token that is looked at, wherever a lock held twice is not harmless', () => {
    assert.match(read('docs/ladder.md'), /\| 8\. fencing \| nobody looks at the token \| – \| stands \|/)
    for (const answers of every) {
      const { guard, pages } = decide(answers)
      assert.equal(guard.needed === 'no', answers.double === 'harmless')
      assert.equal(pages.includes('docs/ladder.md#8-fencing'), answers.double !== 'harmless')
    }
  })
})

describe('answers', () => {
  it('are read with other names of the same store, each once', () => {
    assert.deepEqual(questions.run.read('Valkey, redis ,postgresql,mariadb'), ['redis', 'postgres', 'mysql'])
    assert.deepEqual(questions.run.read('none'), [])
    assert.equal(questions.machines.read(' One '), 'one')
  })

  it('that make no sense are reported with what is taken', () => {
    assert.throws(() => questions.machines.read('two'), /--machines must be one or many, got 'two'/)
    assert.throws(() => questions.run.read('oracle'), /--run takes redis, .*, or none; got 'oracle'/)
    assert.throws(() => questions.run.read('none,redis'), /got 'none'/)
    assert.throws(() => questions.double.read(''), /--double must be harmless or costly or never, got ''/)
    assert.throws(() => questions.section.read('30'), /--section needs a unit/)
    for (const text of ['-1', '1.5', 'many', '1000001', '1e3'])
      assert.throws(() => questions.waiters.read(text), /--waiters must be a whole number from 0/, text)
  })

  it('durations are written as the library reads them', () => {
    const texts = [1, 999, 1_500, 2_000, 90_000, 120_000, 3_600_000, 7_200_000].map(formatTime)
    assert.deepEqual(texts, ['1ms', '999ms', '1500ms', '2s', '90s', '2m', '60m', '2h'])
  })
})

const plain = (text: string) => text.replace(/\*\*/g, '').replace(/\s+/g, ' ')

after(leakCheck)
