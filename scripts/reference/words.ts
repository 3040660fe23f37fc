// The language of the reference. Its Chinese pages are the English ones with every text looked up in chinese.json, which is keyed by the
// English text itself: a docstring that was changed has no translation any more, and the old one is not used any more. Both are errors.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The text in the language of the page. `{0}` stands for the first value. */
export type Say = (text: string, ...values: readonly string[]) => string

export const inEnglish: Say = fill

export interface Translation {
  readonly say: Say
  /** English texts without a translation; `say` answered in English. */
  readonly missing: () => string[]
  /** Translations of texts that nothing says any more. */
  readonly unused: () => Readonly<Record<string, string>>
}

export function translation(texts: Readonly<Record<string, string>>): Translation {
  const missing = new Set<string>()
  const used = new Set<string>()
  return {
    say: (text, ...values) => {
      const key = text.replace(/\s+/g, ' ').trim()
      if (key === '') return ''
      const translated = Object.hasOwn(texts, key) ? texts[key] : undefined
      if (translated === undefined) missing.add(key)
      else used.add(key)
      return fill(translated ?? text, ...values)
    },
    missing: () => [...missing],
    unused: () => Object.fromEntries(Object.entries(texts).filter(([key]) => !used.has(key))),
  }
}

export function chineseTexts(): Record<string, string> {
  const file = fileURLToPath(new URL('../../../scripts/reference/chinese.json', import.meta.url))
  return JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
}

/** What is to be done about a translation that is not complete; `undefined`: nothing. */
export function complaint({ missing, unused }: Translation): string | undefined {
  const [lacks, over] = [missing(), Object.entries(unused())]
  if (lacks.length + over.length === 0) return undefined
  return [
    'scripts/reference/chinese.json is not up to date with the docstrings:',
    ...lacks.map((text) => `  lacks ${JSON.stringify(text)}`),
    ...over.map(
      ([text, chinese]) => `  is not used any more: ${JSON.stringify(text)}: ${JSON.stringify(chinese)}`,
    ),
    "Translate, take out, and run 'npm run api:write'.",
  ].join('\n')
}

function fill(text: string, ...values: readonly string[]): string {
  return text.replace(/\{(\d)\}/g, (placeholder, at: string) => values[Number(at)] ?? placeholder)
}
