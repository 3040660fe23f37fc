// The Spin models: the designs hold, and each design with one mistake breaks the property it must break. Only the quick
// part; `npm run models` checks more.
// Second tier because it checks designs, not code, and takes minutes of processor time.
import '../support/background.js'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findMistake, listMistakes, listProperties, tables } from '../../lab/models/page.js'
import { check, findTools, type Question, type Tools } from '../../lab/models/spin.js'
import { type Row, table } from '../../lab/models/table.js'
import { checkRow } from '../../lab/models/verdict.js'
import { leakCheck } from '../support/leaks.js'

const bounds = { memory: 2048, time: 240_000 }
let tools: Tools

before(async () => {
  tools = await findTools()
})

function nameOf({ model, defines, asks, expected }: Row): string {
  const how = defines.length === 0 ? 'as it stands' : `with ${defines.join(' ')}`
  return expected === 'holds' ? `${model} ${how} holds (${asks})` : `${model} ${how} breaks ${expected}`
}

describe('the models', { concurrency: Math.min(2, availableParallelism()) }, () => {
  for (const row of table.filter(({ effort }) => effort === 'quick')) {
    it(nameOf(row), async () => {
      await checkRow(row, bounds, tools)
    })
  }
})

describe('the table of models', () => {
  const models = new Set(table.map(({ model }) => model))

  for (const model of models) {
    it(`has each mistake that the head of ${model} names, with the property it names, and no other`, () => {
      const rows = table.filter((row) => row.model === model && row.expected !== 'holds')
      const listed = new Map(listMistakes(model).map(({ name, breaks }) => [name, breaks]))
      assert.deepEqual(new Set(rows.map(findMistake)), new Set(listed.keys()))
      for (const row of rows) {
        const breaks = listed.get(findMistake(row)) ?? ''
        const expected = row.expected === 'deadlock' ? 'no deadlock' : row.expected
        assert.ok(
          breaks.includes(expected),
          `${findMistake(row)} breaks ${expected}, the model says: ${breaks}`,
        )
      }
    })

    it(`has a mistake for each property of ${model}`, () => {
      const broken = table.filter((row) => row.model === model).map(({ expected }) => expected)
      assert.deepEqual(new Set(broken), new Set(['holds', ...listProperties(model)]))
    })

    it(`has quick runs of ${model} that hold, and each kind of question that it answers`, () => {
      const rows = table.filter((row) => row.model === model && row.expected === 'holds')
      assert.ok(rows.some(({ effort, asks }) => effort === 'quick' && asks === 'safety'))
      // The majority lock promises no progress: contenders may split the votes again and again. Of a session only the end is asked, of a
      // quarantine only who is kept out.
      if (!['redlock', 'session', 'quarantine', 'slots'].includes(model))
        assert.ok(rows.some(({ effort, asks }) => effort === 'quick' && asks === 'served'))
    })
  }
})

it('docs/models.md lists every run that holds, with its number of states, and every mistake', () => {
  const page = readFileSync(fileURLToPath(new URL('../../../docs/models.md', import.meta.url)), 'utf8')
  const { holding, mistakes } = tables()
  const missing = [...holding.split('\n'), ...mistakes.split('\n')].filter((line) => !page.includes(line))
  assert.deepEqual(missing, [], '`npm run models -- --page` prints both tables')
})

describe('the verdict', () => {
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-verdict-'))
  })
  after(() => rm(folder, { recursive: true }))

  async function ask(name: string, source: string, question: Partial<Question> = {}) {
    const file = join(folder, `${name}.pml`)
    await writeFile(file, source)
    const whole = { file, defines: [], asks: 'safety', states: 1, shortest: false, ...question }
    return check(whole, { memory: 64, time: 20_000 }, tools)
  }

  it('names the property of a failed assertion and tells the way to it', async () => {
    const source =
      'bool fine = true; active proctype P() { printf("it steps\\n"); fine = false; assert(fine) }'
    const { verdict, story } = await ask('assertion', source, { shortest: true })
    assert.equal(verdict, 'fine')
    assert.deepEqual(story, ['it steps'])
  })

  it('tells being stuck from having ended', async () => {
    assert.equal((await ask('stuck', 'bool go; active proctype P() { go }')).verdict, 'deadlock')
    assert.equal((await ask('ended', 'active proctype P() { skip }')).verdict, 'holds')
  })

  it('names the formula that waiting for ever breaks', async () => {
    const source = (step: string) =>
      `bool done; active proctype P() { do :: !done -> ${step} :: done -> break od } ltl arrives { <> done }`
    assert.equal((await ask('never', source('skip'), { asks: 'arrives' })).verdict, 'arrives')
    assert.equal((await ask('once', source('done = true'), { asks: 'arrives' })).verdict, 'holds')
  })

  it('is no verdict when memory ran out before all was seen', async () => {
    const source = 'int n; byte a[200]; active proctype P() { do :: n < 9000000 -> n++; a[n % 200] = n od }'
    const { verdict } = await ask('endless', source)
    assert.match(verdict, /^unfinished: /)
  })

  it('is an error when the model has a mistake in its writing', async () => {
    await assert.rejects(ask('wrong', 'active proctype P() { nonsense }'), /nonsense/)
  })
})

describe('without a C compiler', () => {
  it('the error says what is missing and what to do', async () => {
    const { CC } = process.env
    process.env.CC = 'no-such-compiler'
    try {
      await assert.rejects(findTools(), /CC=no-such-compiler does not start.*Install one/s)
    } finally {
      if (CC === undefined) delete process.env.CC
      else process.env.CC = CC
    }
  })
})

after(leakCheck)
