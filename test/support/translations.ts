// What must be the same in a page and its translation: the levels of the headings, and the code but for its comments. And what Markdown
// does not show as meant in a language without spaces.
import { type Fence, parseFences } from './markdown.js'

/** One line per difference. */
export function differences(english: string, other: string): string[] {
  return [...headingDifferences(english, other), ...codeDifferences(parseFences(english), parseFences(other))]
}

/**
 * Bold text that Markdown shows with its asterisks: between a punctuation mark and a letter, `**` neither begins nor ends emphasis, and
 * Chinese has no space there. The mark belongs outside: `**修法**：加锁`, not `**修法：**加锁`.
 */
export function brokenBold(page: string): string[] {
  const fenced = linesOfFences(page)
  return page.split('\n').flatMap((line, at) => {
    if (fenced.has(at + 1)) return []
    const parts = line.replace(/`[^`]*`/g, (code) => 'x'.repeat(code.length)).split('**')
    return parts.flatMap((text, part) => {
      const [before, after] = [parts[part - 1], parts[part + 1]]
      if (part % 2 === 0 || before === undefined || after === undefined) return []
      const broken =
        (/\p{P}$/u.test(text) && /^[\p{L}\p{N}]/u.test(after)) ||
        (/[\p{L}\p{N}]$/u.test(before) && /^\p{P}/u.test(text))
      return broken ? [`line ${at + 1}: **${text}**`] : []
    })
  })
}

function headingDifferences(english: string, other: string): string[] {
  const [there, here] = [parseHeadings(english), parseHeadings(other)]
  for (let at = 0; at < Math.max(there.length, here.length); at++) {
    const [one, two] = [there[at], here[at]]
    if (level(one) !== level(two)) return [`heading ${at + 1} is ${told(two)}, in English ${told(one)}`] // The next ones would be off by one.
  }
  return []
}

function codeDifferences(there: readonly Fence[], here: readonly Fence[]): string[] {
  if (there.length !== here.length) return [`${there.length} fences of code in English, here ${here.length}`]
  return there.flatMap((one, at) => {
    const two = here[at] as Fence
    const [expected, is] = [statements(one), statements(two)]
    const differs = Math.max(expected.length, is.length)
    for (let line = 0; line < differs; line++) {
      if (expected[line] !== is[line]) {
        return [
          `line ${two.line - 1}: the code differs from the English line ${one.line - 1}: ${told(is[line])} for ${told(expected[line])}`,
        ]
      }
    }
    return one.language === two.language ? [] : [`line ${two.line - 1}: ${two.language} for ${one.language}`]
  })
}

/** Lines of a fence without comments, empty lines and space at their ends. */
function statements({ language, code }: Fence): string[] {
  const mark = /^(ts|typescript|js|javascript|jsonc?|c)$/.test(language)
    ? /(^|\s)\/\/.*$|\/\*.*?\*\//g
    : /^(sql|lua)$/.test(language)
      ? /(^|\s)--.*$/g
      : /(^|\s)#.*$/g
  return code
    .split('\n')
    .map((line) => line.replace(mark, '').trimEnd())
    .filter((line) => line !== '')
}

function parseHeadings(page: string): string[] {
  const fenced = linesOfFences(page)
  return page.split('\n').filter((line, at) => /^#{1,6} /.test(line) && !fenced.has(at + 1))
}

function linesOfFences(page: string): ReadonlySet<number> {
  return new Set(parseFences(page).flatMap(({ code, line }) => code.split('\n').map((_, at) => line + at)))
}

function level(heading: string | undefined): number {
  return heading === undefined ? 0 : heading.indexOf(' ')
}

function told(text: string | undefined): string {
  return text === undefined ? 'missing' : JSON.stringify(text)
}
