// The reference has every option, error, scheme and command. That its pages are what the source says is checked by `npm run check:api`.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { cliPage } from '../scripts/reference/cli.js'
import { advice } from '../scripts/reference/errors.js'
import { cell, usual } from '../scripts/reference/markdown.js'
import { type Member, parseDoc } from '../scripts/reference/model.js'
import { chineseTexts, complaint, inEnglish, translation } from '../scripts/reference/words.js'
import { wrongValues } from '../scripts/reference/wrong-values.js'
import { commandLine } from '../src/cli/command-line.js'
import { known } from '../src/cli/connect.js'
import { listFiles, read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const reports = listFiles('docs/api', '.txt').map((path) => read(path))

function exportedAs(pattern: RegExp): string[] {
  return [...new Set(reports.flatMap((report) => [...report.matchAll(pattern)].map(([, name = '']) => name)))]
}

function lacking(page: string, headings: readonly string[]): string[] {
  assert.ok(headings.length > 0)
  const lines = new Set(read(page).split('\n'))
  return headings.filter((heading) => !lines.has(heading))
}

test('every exported type of options has its section, with every option', () => {
  const names = exportedAs(/^export (?:interface|type) (\w*(?:Options|Defaults))\b/gm)
  assert.deepEqual(
    lacking(
      'docs/reference/options.md',
      names.map((name) => `### ${name}`),
    ),
    [],
  )
  const page = read('docs/reference/options.md')
  const bodies = reports.flatMap((report) => [
    ...report.matchAll(/^export interface \w*(?:Options|Defaults)\b[^{]*\{\n([\s\S]*?)^\}/gm),
  ])
  const options = bodies.flatMap(([, body = '']) =>
    [...body.matchAll(/^ {4}readonly (\w+)\??:/gm)].map(([, option = '']) => option),
  )
  assert.ok(options.length > 100, `${options.length} options found`)
  assert.deepEqual(
    options.filter((option) => !page.includes(`\n| \`${option}\` | `)),
    [],
  )
})

test('every exported error class has its section, and every code its row', () => {
  const names = exportedAs(/^export (?:abstract )?class (\w+Error)\b/gm)
  assert.ok(names.includes('LeaseLostError'))
  assert.deepEqual(
    lacking(
      'docs/reference/errors.md',
      names.map((name) => `### ${name}`),
    ),
    [],
  )
  const page = read('docs/reference/errors.md')
  for (const [code, { sample }] of Object.entries(advice)) {
    assert.equal(sample.code, code)
    assert.match(
      page,
      new RegExp(
        `^\\| \`${code}\` \\| \\[\`${sample.name}\`\\]\\(#\\w+\\) \\| \\d{3}(, answered)? \\| .`,
        'm',
      ),
    )
  }
})

test('every scheme that --on takes is described, and every command with its help', () => {
  const page = read('docs/reference/urls.md')
  assert.deepEqual(
    known.filter((scheme) => !new RegExp(`(^|\\s)${scheme.replace('+', '\\+')}`, 'm').test(page)),
    [],
  )
  const commands = commandLine(undefined).commands.map((command) => `## holdfast ${command.name()}`)
  assert.deepEqual(lacking('docs/reference/cli.md', commands), [])
  assert.equal(read('docs/reference/cli.md'), cliPage(inEnglish), "run 'npm run api:write'")
})

test('defaults are found in tags, in sentences and in brackets', () => {
  assert.deepEqual(parseDoc('/** Longest time, in ms. @default 30_000 */'), {
    text: 'Longest time, in ms.',
    default: '30_000',
  })
  assert.deepEqual(parseDoc('/**\n * Prefix of keys. Default `hf:`. No braces.\n */'), {
    text: 'Prefix of keys. No braces.',
    default: '`hf:`',
  })
  assert.deepEqual(parseDoc('/** `strict` (default): always. `off`: never. */'), {
    text: '`strict` (default): always. `off`: never.',
    default: '`strict`',
  })
  assert.deepEqual(parseDoc(undefined), { text: '', default: undefined })
  assert.equal(usual('false: 428 Precondition Required'), '`false`: 428 Precondition Required')
  assert.equal(cell('a | b < c, `d<e>`'), 'a \\| b &lt; c, `d<e>`')
})

test('a changed docstring has no Chinese any more, and the old one is not used any more', () => {
  const chinese = translation({ 'Longest {0}.': '最长{0}。', 'Old words.': '旧话。' })
  assert.equal(chinese.say('Longest\n  {0}.', '`ttl`'), '最长`ttl`。')
  assert.equal(chinese.say('New words.'), 'New words.')
  assert.equal(chinese.say('constructor'), 'constructor')
  assert.equal(chinese.say(''), '')
  assert.deepEqual(chinese.missing(), ['New words.', 'constructor'])
  assert.deepEqual(chinese.unused(), { 'Old words.': '旧话。' })
  assert.match(
    complaint(chinese) ?? '',
    /lacks "New words\."[\s\S]*not used any more: "Old words\.": "旧话。"/,
  )
  const whole = translation({ a: '甲' })
  whole.say('a')
  assert.equal(complaint(whole), undefined)
})

test('the Chinese of the reference has the same code and values as the English', () => {
  const parts = (text: string): string => (text.match(/`[^`]*`|\{\d\}/g) ?? []).toSorted().join(' ')
  const texts = Object.entries(chineseTexts())
  assert.ok(texts.length > 250, `${texts.length} texts`)
  assert.deepEqual(
    texts.filter(([english, chinese]) => chinese.trim() === '' || parts(english) !== parts(chinese)),
    [],
  )
})

/** Where a wrong value of an option gets no error of its own, and why. Nothing else may. */
const unchecked: Readonly<Record<string, string>> = {
  'holdfast/verify': 'a test passes them to a checker or a picture, which do no I/O',
  'holdfast/otel: MetricOptions': "OpenTelemetry's",
  'holdfast/otel: SpanOptions': "OpenTelemetry's",
  'holdfast/etcd: EtcdOptions.tls': "passed to Node's tls",
  'holdfast/etcd: TlsOptions': "passed to Node's tls",
  'holdfast/consul: ConsulOptions.tls': "passed to Node's tls",
  'holdfast/web-locks: LockOptions.ifAvailable': 'a boolean of Web IDL: every value is one',
  'holdfast/web-locks: LockOptions.steal': 'a boolean of Web IDL: every value is one',
}

test('every option of the reference refuses a wrong value by an error that names it', () => {
  let heads: string[] = []
  let [specifier, name] = ['', '']
  const lacks: string[] = []
  let tried = 0
  for (const line of read('docs/reference/options.md').split('\n')) {
    if (line.startsWith('## ')) specifier = line.slice(3)
    if (line.startsWith('### ')) name = line.slice(4)
    const cells = line.split(/ ?(?<!\\)\| ?/).slice(1, -1)
    if (cells[0] === 'option') heads = cells
    const [, option = ''] = /^`(\w+)`$/.exec(cells[0] ?? '') ?? []
    if (option === '') continue
    const wrong = cells[heads.indexOf('a wrong value')] ?? ''
    if (new RegExp(`^\`(Type|Range)Error\`: .*\\b${option}\\b`).test(wrong)) tried += 1
    else lacks.push(`${specifier}: ${name}.${option}`)
  }
  const whole = (option: string) =>
    Object.keys(unchecked).some(
      (known) => option === known || option.startsWith(`${known}.`) || option.startsWith(`${known}: `),
    )
  assert.deepEqual(
    lacks.filter((option) => !whole(option)),
    [],
  )
  for (const known of Object.keys(unchecked))
    assert.ok(
      lacks.some(
        (option) => option === known || option.startsWith(`${known}.`) || option.startsWith(`${known}: `),
      ),
      `${known} is checked now`,
    )
  assert.ok(tried > 100, `${tried} options were tried`)
})

test('the error of a wrong value is the one that the library throws', async () => {
  const wrong = wrongValues()
  const member: Member = { name: 'ttl', type: 'Duration', optional: true, doc: parseDoc() }
  try {
    assert.deepEqual(await wrong.of('holdfast', 'AcquireOptions', member), [
      '`RangeError`: ttl must be from 10 to 31622400000 ms',
    ])
    assert.deepEqual(await wrong.of('holdfast', 'NoOptions', member), [])
  } finally {
    await wrong.close()
  }
})

after(leakCheck)
