/** The packages in bench/peers: installed only on demand, so that holdfast's own installation stays small. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

const folder = new URL('../../bench/peers/', import.meta.url)

/** Installs the versions of the lock file, unless present. */
export function installPeers(): void {
  const { dependencies } = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  if (Object.keys(dependencies).every((name) => existsSync(new URL(`node_modules/${name}`, folder)))) return
  console.error('installing the peers into bench/peers …')
  const stdio = ['ignore', 'ignore', 'inherit'] as const
  execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: [...stdio] })
}

export async function loadPeer(name: string): Promise<object> {
  const { load } = (await import(new URL('load.js', folder).href)) as { load(name: string): Promise<object> }
  return load(name)
}

export function peerVersion(name: string): string {
  const path = new URL(`node_modules/${name}/package.json`, folder)
  const { version } = JSON.parse(readFileSync(path, 'utf8')) as { readonly version: string }
  return version.replace(/^v/, '')
}
