/** The tables of docs/models.md: every run that holds, and every mistake. Generated from the table and the heads of the models. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Model, type Row, table } from './table.js'

export interface Mistake {
  /** The define: `NO_POLL`, or several that together make the mistake. */
  readonly name: string
  readonly what: string
  /** The properties that it must break, according to the head of the model. */
  readonly breaks: string
}

const properties = [
  'claims_compatible',
  'token_grows',
  'write_in_order',
  'valid_write_accepted',
  'bypass_bounded',
  'nobody_passed_over',
  'reused_in_time',
  'refused_for_real',
  'no_place_left',
  'ended_stays_ended',
  'ends_first',
  'no deadlock',
  'served',
]

/** The file of a model. */
export function modelFile(model: Model): string {
  return fileURLToPath(new URL(`../../../lab/models/${model}.pml`, import.meta.url))
}

/** The properties that the head of a model lists, named as in the table. */
export function listProperties(model: Model): string[] {
  const [, list = ''] =
    /\n \* Properties\n([\s\S]*?)\n \*\n/.exec(readFileSync(modelFile(model), 'utf8')) ?? []
  const named = [...list.matchAll(/^ \* {3}(no deadlock|[a-z_]+) /gm)].map(([, name = '']) => name)
  return named.map((name) => (name === 'no deadlock' ? 'deadlock' : name))
}

/** The list of mistakes at the head of a model: name, what is wrong, property; one or two lines each. */
export function listMistakes(model: Model): Mistake[] {
  const text = readFileSync(modelFile(model), 'utf8')
  const [, list = ''] = /must break the property named:\n([\s\S]*?)\n \*(?:\/|\n| \S)/.exec(text) ?? []
  const joined = list.replace(/\n \*\s{12,}/g, ' ')
  return joined.split('\n').map((line) => {
    const [, name = '', rest = ''] = /^ \*\s+([A-Z_]+(?:, [A-Z_]+)*)\s+(.*)$/.exec(line) ?? []
    const at = Math.min(...properties.map((property) => findPosition(rest, property)))
    return {
      name,
      what: rest.slice(0, at).replace(/\s+/g, ' ').trim(),
      breaks: rest.slice(at).replace(/\s+/g, ' ').trim(),
    }
  })
}

function findPosition(text: string, part: string): number {
  const at = text.indexOf(part)
  return at < 0 ? text.length : at
}

/** The defines of a row that name the mistake. */
export function findMistake({ model, defines }: Row): string {
  const first = model === 'redlock' ? defines.filter((define) => /^(AMNESIA|QUARANTINE)$/.test(define)) : []
  return first.length > 0 ? first.join(', ') : (defines[0] ?? '')
}

/** Both tables, in Markdown. */
export function tables(): { readonly holding: string; readonly mistakes: string } {
  const holding = table
    .filter(({ expected }) => expected === 'holds')
    .map(({ model, defines, asks, effort, states }) => {
      const how = defines.length === 0 ? 'its own bounds' : `\`${defines.join(' ')}\``
      return `| ${model} | ${how} | ${asks} | ${effort} | ${states.toLocaleString('en')} |`
    })
  const models = [...new Set(table.map(({ model }) => model))]
  const mistakes = models.flatMap((model) =>
    listMistakes(model).map(({ name, what, breaks }) => `| ${model} | \`${name}\` | ${what} | ${breaks} |`),
  )
  return {
    holding: [
      '| model | bounds and options | asked | part | states |',
      '|---|---|---|---|---|',
      ...holding,
    ].join('\n'),
    mistakes: ['| model | define | what is wrong | breaks |', '|---|---|---|---|', ...mistakes].join('\n'),
  }
}
