// The table of what runs on which driver, in docs/primitives.md and its Chinese page, made from the traits in the public API (docs/api/*.txt): the
// types that refuse to compile what a driver cannot are what the table shows. That the drivers answer so is shown by docs/promises.md.
//
//   npm run api:write    writes it, after the API itself
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { columns } from './promises-table.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** The pages that have the table, each with its words for those of {@link toTable} where they differ. */
const pages: Readonly<Record<string, ReadonlyMap<string, string>>> = {
  'docs/primitives.md': new Map(),
  'docs/zh/primitives.md': new Map([
    ['yes', '支持'],
    ['no', '不支持'],
    ['in part', '部分支持'],
    [': ', '：'],
    ['a `job` keeps `minHold` only while its process lives', '`job` 的进程活着时才保持 `minHold`'],
    ['a `latch` is counted down, but cannot be joined', '`latch` 可以倒数，不能加入'],
    ['The driver has no cells (`traits.cells`)', '驱动没有 cell（`traits.cells`）'],
    [
      "The driver has no readers (`'shared'` in `traits.modes`)",
      "驱动没有读者（`traits.modes` 里没有 `'shared'`）",
    ],
    [
      'A hold cannot move to another process (`traits.portable`)',
      '持有不能转移到另一个进程（`traits.portable`）',
    ],
  ]),
}
const begin = '<!-- table: made by scripts/primitives-table.ts -->'
const end = '<!-- end of the table -->'

/** What each needs of a driver. `half`: what a part of it needs besides, and what is left without. */
const primitives: readonly {
  readonly name: string
  readonly needs: readonly Need[]
  readonly half?: { readonly needs: Need; readonly without: string }
}[] = [
  { name: 'upgradeable', needs: ['shared'] },
  {
    name: 'job',
    needs: [],
    half: { needs: 'cells', without: 'a `job` keeps `minHold` only while its process lives' },
  },
  { name: 'once', needs: ['cells'] },
  { name: 'election', needs: ['cells'] },
  {
    name: 'latch',
    needs: ['cells'],
    half: { needs: 'shared', without: 'a `latch` is counted down, but cannot be joined' },
  },
  { name: 'barrier', needs: ['cells', 'shared'] },
  { name: 'pool', needs: ['cells', 'shared'] },
  { name: 'revoke', needs: ['cells'] },
  { name: 'export, adopt', needs: ['cells', 'portable'] },
]

type Need = 'cells' | 'shared' | 'portable'

const lacks: Readonly<Record<Need, string>> = {
  cells: 'The driver has no cells (`traits.cells`)',
  shared: "The driver has no readers (`'shared'` in `traits.modes`)",
  portable: 'A hold cannot move to another process (`traits.portable`)',
}

export interface Abilities {
  readonly driver: string
  readonly has: ReadonlySet<string>
}

/** The traits that one API report declares; several where a driver has strategies. */
export function parseAbilities(entry: string, report: string): Abilities[] {
  return [...report.matchAll(/export interface (\w*)Traits extends Traits \{([^}]*)\}/g)].map(
    ([, name = '', body = '']) => {
      const modes = [...(/modes: ([^;]*);/.exec(body)?.[1] ?? '').matchAll(/'(\w+)'/g)].map(
        ([, mode = '']) => mode,
      )
      const flags = ['fair', 'cells', 'portable'].filter((flag) => body.includes(`${flag}: true`))
      // Where it depends on how the store is set up, the type says boolean.
      const acquireMany = /acquireMany: (true|boolean)/.exec(body)?.[1]
      if (acquireMany !== undefined)
        flags.push('acquireMany', ...(acquireMany === 'true' ? ['always acquireMany'] : []))
      const strategy = name.toLowerCase().replace(entry, '')
      return {
        driver: strategy === '' ? entry : `${entry} (${strategy})`,
        has: new Set([...modes, ...flags]),
      }
    },
  )
}

/** A mark for each reason, in the order in which they come. */
class Notes {
  readonly #marks = new Map<string, string>()

  mark(reason: string): string {
    const mark = this.#marks.get(reason) ?? String.fromCharCode(97 + this.#marks.size)
    this.#marks.set(reason, mark)
    return mark
  }

  lines(): string[] {
    return [...this.#marks].map(([reason, mark]) => `- **${mark}** ${reason}`)
  }
}

export function toTable(
  drivers: readonly Abilities[],
  words: ReadonlyMap<string, string> = new Map(),
): string {
  const notes = new Notes()
  const word = (text: string): string => words.get(text) ?? text
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const cell = ({ has }: Abilities, { needs, half }: (typeof primitives)[number]) => {
    const missing = needs.filter((need) => !has.has(need))
    if (missing.length > 0)
      return `${word('no')} (${missing.map((need) => notes.mark(word(lacks[need]))).join(', ')})`
    if (half === undefined || has.has(half.needs)) return word('yes')
    return `${word('in part')} (${notes.mark(`${word(lacks[half.needs])}${word(': ')}${word(half.without)}`)})`
  }
  return [
    row(['', ...drivers.map(({ driver }) => driver)]),
    row(['---', ...drivers.map(() => '---')]),
    ...primitives.map((one) => row([one.name, ...drivers.map((driver) => cell(driver, one))])),
    '',
    ...notes.lines(),
  ].join('\n')
}

/** What the types of all drivers declare, in the order of the table driver × promise. */
export function abilities(): readonly Abilities[] {
  const folder = join(root, 'docs/api')
  const place = ({ driver }: Abilities) => (columns as readonly string[]).indexOf(driver)
  return readdirSync(folder)
    .flatMap((file) => parseAbilities(file.replace(/\.txt$/, ''), readFileSync(join(folder, file), 'utf8')))
    .sort((a, b) => place(a) - place(b))
}

/** Each page as it has to be. @throws Error when one has no place for the table */
export function currentPages(): { readonly page: string; readonly is: string; readonly shouldBe: string }[] {
  return Object.entries(pages).map(([page, words]) => {
    const is = readFileSync(join(root, page), 'utf8')
    const [from, to] = [is.indexOf(begin), is.indexOf(end)]
    if (from < 0 || to < from) throw new Error(`${page} has no ${begin} … ${end}`)
    const table = toTable(abilities(), words)
    return { page, is, shouldBe: `${is.slice(0, from)}${begin}\n\n${table}\n\n${is.slice(to)}` }
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { page, is, shouldBe } of currentPages()) {
    if (process.argv.includes('--write')) writeFileSync(join(root, page), shouldBe)
    else if (is !== shouldBe) {
      console.error(`the table in ${page} is not what the drivers' types say; run 'npm run api:write'`)
      process.exitCode = 1
    }
  }
}
