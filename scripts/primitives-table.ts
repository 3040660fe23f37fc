// The table of what runs on which driver, in docs/primitives.md, made from the traits in the public API (docs/api/*.txt): the
// types that refuse to compile what a driver cannot are what the table shows.
//
//   npm run api:write    writes it, after the API itself
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = join(root, 'docs/primitives.md')
const begin = '<!-- table: made by scripts/primitives-table.ts -->'
const end = '<!-- end of the table -->'

/** What each needs of a driver. `half`: what a part of it needs besides. */
const primitives: readonly {
  readonly name: string
  readonly needs: readonly string[]
  readonly half?: string
}[] = [
  { name: 'mutex, all', needs: ['exclusive'] },
  { name: 'all, in one step', needs: ['together'], half: 'always together' },
  { name: 'first come, first served', needs: ['fair'] },
  { name: 'readWrite', needs: ['shared'] },
  { name: 'semaphore', needs: ['permits'] },
  { name: 'upgradeable', needs: ['shared'] },
  { name: 'job', needs: ['exclusive'], half: 'cells' },
  { name: 'once', needs: ['cells'] },
  { name: 'election', needs: ['cells'] },
  { name: 'latch', needs: ['cells'], half: 'shared' },
  { name: 'barrier', needs: ['cells', 'shared'] },
  { name: 'pool', needs: ['cells', 'shared'] },
  { name: 'revoke', needs: ['cells'] },
  { name: 'export, adopt', needs: ['cells', 'portable'] },
]

export interface Abilities {
  readonly driver: string
  readonly has: ReadonlySet<string>
}

/** The traits that one API report declares; several where a driver has strategies. */
export function abilitiesIn(entry: string, report: string): Abilities[] {
  return [...report.matchAll(/export interface (\w*)Traits extends Traits \{([^}]*)\}/g)].map(
    ([, name = '', body = '']) => {
      const modes = [...(/modes: ([^;]*);/.exec(body)?.[1] ?? '').matchAll(/'(\w+)'/g)].map(
        ([, mode = '']) => mode,
      )
      const flags = ['fair', 'cells', 'portable'].filter((flag) => body.includes(`${flag}: true`))
      // Where it depends on how the store is set up, the type says boolean.
      const together = /together: (true|boolean)/.exec(body)?.[1]
      if (together !== undefined) flags.push('together', ...(together === 'true' ? ['always together'] : []))
      const strategy = name.toLowerCase().replace(entry, '')
      return {
        driver: strategy === '' ? entry : `${entry} (${strategy})`,
        has: new Set([...modes, ...flags]),
      }
    },
  )
}

export function tableOf(drivers: readonly Abilities[]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const sign = ({ has }: Abilities, { needs, half }: (typeof primitives)[number]) =>
    !needs.every((need) => has.has(need)) ? '–' : half !== undefined && !has.has(half) ? 'in part' : 'yes'
  return [
    row(['', ...drivers.map(({ driver }) => driver)]),
    row(['---', ...drivers.map(() => '---')]),
    ...primitives.map((one) => row([one.name, ...drivers.map((driver) => sign(driver, one))])),
  ].join('\n')
}

/** The page as it has to be. @throws Error when it has no place for the table */
export function currentPage(): { readonly is: string; readonly shouldBe: string } {
  const folder = join(root, 'docs/api')
  const drivers = readdirSync(folder)
    .sort()
    .flatMap((file) => abilitiesIn(file.replace(/\.txt$/, ''), readFileSync(join(folder, file), 'utf8')))
  const is = readFileSync(page, 'utf8')
  const [from, to] = [is.indexOf(begin), is.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/primitives.md has no ${begin} … ${end}`)
  return { is, shouldBe: `${is.slice(0, from)}${begin}\n\n${tableOf(drivers)}\n\n${is.slice(to)}` }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { is, shouldBe } = currentPage()
  if (process.argv.includes('--write')) writeFileSync(page, shouldBe)
  else if (is !== shouldBe) {
    console.error(
      "the table in docs/primitives.md is not what the drivers' types say; run 'npm run api:write'",
    )
    process.exitCode = 1
  }
}
