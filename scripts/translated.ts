// Which text of the English page a Chinese page translates: the last line of the Chinese page has a short hash of it. Code does not count,
// in fences or in the text, nor do the targets of links: test/docs-site.test.ts compares the fences by themselves, and a renamed function
// changes no sentence.
//
//   node build/scripts/translated.js guard cli     the Chinese pages of docs/guard.md and docs/cli.md say what the English ones say now
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseFences } from '../test/support/markdown.js'

const docs = fileURLToPath(new URL('../../docs/', import.meta.url))
const mark = /\n<!-- English text: ([0-9a-f]{8}) -->\n$/

/** A hash of the sentences of a page. */
export function sourceText(page: string): string {
  const lines = page.split('\n')
  for (const { code, line } of parseFences(page)) lines.fill('', line - 1, line - 1 + code.split('\n').length)
  const words = lines
    .join('\n')
    .replace(/`[^`\n]*`/g, '`')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/\s+/g, ' ')
  return createHash('sha256').update(words.trim()).digest('hex').slice(0, 8)
}

/** The hash that a Chinese page has. */
export function translatedText(chinese: string): string | undefined {
  return mark.exec(chinese)?.[1]
}

/** The Chinese page with the hash of the English one. */
export function marked(english: string, chinese: string): string {
  return `${chinese.replace(mark, '\n').trimEnd()}\n\n<!-- English text: ${sourceText(english)} -->\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const page of process.argv.slice(2)) {
    const [english, chinese] = [`${docs}${page}.md`, `${docs}zh/${page}.md`]
    writeFileSync(chinese, marked(readFileSync(english, 'utf8'), readFileSync(chinese, 'utf8')))
  }
