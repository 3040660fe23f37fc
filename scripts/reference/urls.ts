// docs/reference/urls.md: what a store URL may contain, asked of the command line's own parser. A scheme or a setting that
// url-schemes.ts lacks, and a value that the parser refuses, are errors here.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { known, target } from '../../src/cli/connect.js'
import { CliError } from '../../src/cli/exit.js'
import { cell, code, page, table, usual } from './markdown.js'
import type { Model } from './model.js'
import { all, type Scheme, type Setting, tls } from './url-schemes.js'
import type { Say } from './words.js'

const cli = fileURLToPath(new URL('../../../src/cli/', import.meta.url))

const introduction = `What \`--on\` and \`HOLDFAST_URL\` take: \`scheme://[login@]h1[:port],h2[/path][?settings]\`. Write \`%40\`, \`%2F\`, \`%3F\` and \`%23\` for @, /, ? and # in a
password or a setting. An unknown setting, or a value that makes no sense, ends the command with 64 before any I/O. A setting left out
has the default of the driver's option. In place of a URL, \`--on\` also takes [a name from holdfast.json](../cli.md#stores-by-name).`

export function urlsPage(models: readonly Model[], say: Say): string {
  const described = all.flatMap(({ schemes }) => schemes)
  const lacks = known.filter((scheme) => !described.includes(scheme))
  if (lacks.length > 0) throw new Error(`scripts/reference/url-schemes.ts lacks ${lacks.join(', ')}`)
  const sections = all.map((scheme) => section(scheme, models, say))
  return page(say('Store URLs'), say(introduction), ...sections, ...environment(say))
}

function section(scheme: Scheme, models: readonly Model[], say: Say): string {
  const settings = { ...scheme.settings, ...(scheme.schemes.includes('local:') ? {} : tls) }
  const accepted = knownSettings(scheme.example)
  const [ours, theirs] = [Object.keys(settings).toSorted().join(), accepted.toSorted().join()]
  if (ours !== theirs)
    throw new Error(`scripts/reference/url-schemes.ts: ${scheme.example} takes ${theirs}, not ${ours}`)
  const rows = Object.entries(settings).map(([name, setting]) => {
    for (const value of setting.values) if (value !== 'FILE') target(`${scheme.example}?${name}=${value}`)
    const { text, byDefault } = meaning(name, setting, scheme, models)
    const values = setting.values.map((value) => code(cell(value))).join(setting.like ? ', …' : ', ')
    const shown = setting.like === true ? say('such as {0}', values) : values
    return [code(name), shown, usual(byDefault, say), cell(say(text))]
  })
  const [form, remarks] = toHeader(scheme)
  const options = scheme.options?.[1]
  return [
    `## ${say(scheme.title)}`,
    `\`\`\`text\n${form}\n\`\`\``,
    ...remarks.split('\n\n').map((remark) => say(remark)),
    rows.length === 0
      ? ''
      : table(
          ['setting', 'values', 'default', 'what'].map((head) => say(head)),
          rows,
        ),
    options === undefined
      ? ''
      : say('More in code: {0}.', `[\`${options}\`](options.md#${options.toLowerCase()})`),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

function meaning(
  name: string,
  { option = name, meaning }: Setting,
  { options: [specifier, interfaceName] = ['', ''] }: Scheme,
  models: readonly Model[],
): { readonly text: string; readonly byDefault?: string | undefined } {
  if (meaning !== undefined) return { text: meaning }
  const member = models
    .find((model) => model.specifier === specifier)
    ?.declared.find((one) => one.name === interfaceName)
    ?.members.find((one) => one.name === option)
  if (member === undefined) throw new Error(`${interfaceName} has no ${option} for the setting ${name}`)
  return { text: member.doc.text, byDefault: member.doc.default }
}

/** The parser names the settings it knows when it meets another one. */
function knownSettings(example: string): string[] {
  try {
    target(`${example}?nonsense=1`)
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    return /known are ([^;]+)/.exec(error.message)?.[1]?.split(', ') ?? []
  }
  return []
}

/** The form, and what is said below it at the top of the file that parses it. */
function toHeader({ source, schemes, form }: Scheme): readonly [form: string, remarks: string] {
  if (source === '') return [form ?? '', '']
  const [, fence = '', remarks = ''] = /```\n([\s\S]*?)```\n([\s\S]*)/.exec(readComment(source)) ?? []
  const forms = fence
    .split('\n')
    .filter((line) => schemes.some((scheme) => new RegExp(`(^| )${scheme.replace('+', '\\+')}//`).test(line)))
  if (forms.length === 0) throw new Error(`src/cli/${source} does not describe ${schemes.join(', ')}`)
  return [forms.join('\n'), remarks.replace(/; for other variables see.*/, '.').trim()]
}

function environment(say: Say): string[] {
  const comment = readComment('tools-environment.ts')
  const [, rows = ''] = /(\| URL \|[\s\S]*?)\n\n/.exec(comment) ?? []
  return [
    `## ${say('From the environment')}`,
    say(
      "What the URL lacks is taken from the variables of the store's own tools; `--on postgres:` alone is enough where `PGHOST` and the others are set.",
    ),
    rows.replace('| URL | |', `| URL | ${say('variables')} |`),
  ]
}

function readComment(file: string): string {
  const [, comment = ''] = /^\/\*\*\n([\s\S]*?) \*\//.exec(readFileSync(join(cli, file), 'utf8')) ?? []
  return comment.replace(/^ \* ?/gm, '')
}
