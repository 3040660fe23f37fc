// What must be true before a release, besides the checks: run by `npm run release`. Prints what is missing, one thing a line.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Manifest {
  readonly version: string
  readonly repository?: unknown
  readonly homepage?: unknown
  readonly bugs?: unknown
}

/** @param repository HOLDFAST_REPOSITORY, the address of the repository's files */
export function missing(manifest: Manifest, changelog: string, repository: string | undefined): string[] {
  const lacks: string[] = []
  for (const field of ['repository', 'homepage', 'bugs'] as const)
    if (manifest[field] === undefined)
      lacks.push(`package.json has no ${field}: set it to the public address; provenance needs repository`)
  if (!repository)
    lacks.push('HOLDFAST_REPOSITORY is not set: links to files that are not published are left out')
  const heading = `## ${manifest.version}\n`
  if (!changelog.includes(heading))
    lacks.push(`CHANGELOG.md has no section "${heading.trim()}", the version of package.json`)
  const [, pending = ''] = /^## Pending\n([\s\S]*?)^## /m.exec(changelog) ?? []
  const entries = pending.split('\n').filter((line) => line.startsWith('- ')).length
  if (entries > 0)
    lacks.push(
      `CHANGELOG.md has ${entries} entries under "Pending": move what matters to users to the release's section`,
    )
  if (/^Not published yet|\. Not published yet/m.test(changelog))
    lacks.push('CHANGELOG.md says "Not published yet": give the date instead')
  return lacks
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = new URL('../../', import.meta.url)
  const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')
  const manifest = JSON.parse(read('package.json')) as Manifest
  const lacks = missing(manifest, read('CHANGELOG.md'), process.env['HOLDFAST_REPOSITORY'])
  for (const line of lacks) console.error(line)
  process.exitCode = lacks.length === 0 ? 0 : 1
}
