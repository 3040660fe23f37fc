// Servers on demand: what a test needs and the machine lacks is unpacked at its first start.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cache, checkout } from './places.js'

const running = new Map<string, Promise<void>>()

/** An unpacked server. */
export interface Unpacked {
  /** The folder it was unpacked into; programs are in `usr/bin` below. */
  readonly root: string
  /** Its libraries. Reading it throws when it brought none: some programs need only what the machine has. */
  readonly libraries: string
}

/**
 * The unpacked server `name` (a recipe in scripts/servers), fetched now if it is missing or its recipe changed.
 *
 * @throws Error with what the fetch script said: a missing server fails a test, it never skips one.
 */
export async function unpacked(name: string): Promise<Unpacked> {
  if (!isFetched(name)) {
    const fetching = running.get(name) ?? fetchNow(name)
    running.set(name, fetching)
    await fetching.finally(() => running.delete(name))
  }
  const root = join(cache, name)
  const found = (): string => {
    const triplet = existsSync(join(root, 'usr/lib'))
      ? readdirSync(join(root, 'usr/lib')).find((entry) => entry.endsWith('-linux-gnu'))
      : undefined
    if (!triplet) throw new Error(`the unpacked server '${name}' has no libraries in ${root}/usr/lib`)
    return join(root, 'usr/lib', triplet)
  }
  return {
    root,
    get libraries() {
      return found()
    },
  }
}

/** The dynamic loader among unpacked libraries, for servers that need a newer C library than the machine has. */
export function findLoader(libraries: string): string {
  const loader = readdirSync(libraries).find((entry) => /^ld-linux.*\.so\.\d+$/.test(entry))
  if (!loader) throw new Error(`there is no dynamic loader in ${libraries}`)
  return join(libraries, loader)
}

// The script leaves a copy of the recipe in what it unpacked; the same comparison here spares a process per start.
function isFetched(name: string): boolean {
  const recipe = join(checkout, 'scripts/servers', `${name}.recipe`)
  const stamp = join(cache, name, '.stamp')
  return existsSync(stamp) && existsSync(recipe) && readFileSync(stamp).equals(readFileSync(recipe))
}

async function fetchNow(name: string): Promise<void> {
  const script = spawn(join(checkout, 'scripts/servers/fetch.sh'), [name], {
    env: { ...process.env, HOLDFAST_SERVERS: cache },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  script.stderr.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const code = await new Promise((resolve, reject) => script.on('error', reject).on('close', resolve))
  if (code !== 0)
    throw new Error(`the server '${name}' is missing and could not be fetched\n${output.trim()}`)
}
