import { inEnglish, type Say } from './words.js'

/** Text of a docstring or a message in a cell of a table. What looks like a tag is text; in code it needs no care. */
export function cell(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replaceAll('|', '\\|')
    .replace(/(`[^`]*`)|</g, (_, inCode?: string) => inCode ?? '&lt;')
}

/** A table; a column that would be empty is left out. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = heads.map((_, at) => rows.some((row) => row[at] !== ''))
  const line = (cells: readonly string[]) => `| ${cells.filter((_, at) => used[at]).join(' | ')} |`
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n')
}

export function code(text: string): string {
  return text === '' ? '' : `\`${text}\``
}

/** The first line of every page. */
export function page(title: string, ...parts: readonly string[]): string {
  const how =
    "<!-- Written by 'npm run api:write' from the source; change the docstrings there, the Chinese in scripts/reference/chinese.json. -->"
  return `${[`# ${title}`, how, ...parts].filter((part) => part !== '').join('\n\n')}\n`
}

/** A default, as a docstring writes it: `false: 428 Precondition Required`. */
export function usual(text = '', say: Say = inEnglish): string {
  const [, value, rest = ''] = /^([\d_]+|true|false|Infinity|'[^']*'|\{\})(?![\w ])(.*)$/.exec(text) ?? []
  const said = value === undefined ? text : `${code(value)}${rest}`
  return cell(/^(`[^`]*`)?$/.test(said) ? said : say(said))
}
