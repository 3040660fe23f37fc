// Every example runs to its end. One that needs a server says so at its top: "Needs Redis at REDIS_URL."
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import { filesIn, read, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { startRedis } from './support/servers/redis.js'

const patience = 60_000

// What stands in a folder of its own is no program by itself, and has a test of its own.
const examples = filesIn('examples', '.ts').filter((path) => path.split('/').length === 2)

test('there are examples', () => {
  assert.ok(examples.length > 0)
})

for (const path of examples) {
  test(`${path} runs to its end`, async () => {
    await using server = read(path).slice(0, 600).includes('Needs Redis at REDIS_URL.')
      ? await startRedis()
      : undefined
    const { code, output } = await runExample(path, server === undefined ? {} : { REDIS_URL: server.url })
    assert.equal(code, 0, output)
  })
}

async function runExample(
  path: string,
  env: Record<string, string>,
): Promise<{ code: number | null; output: string }> {
  // A home of its own: what an example locks on this machine must not meet what somebody else locks.
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${basename(path, '.ts')}-`))
  try {
    const child = spawn(process.execPath, [join(root, 'build', path.replace(/\.ts$/, '.js'))], {
      cwd: folder,
      env: { ...process.env, TMPDIR: folder, XDG_RUNTIME_DIR: folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: patience,
      killSignal: 'SIGKILL',
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    const [code, signal] = await once(child, 'close')
    return { code, output: signal ? `${output}\nkilled by ${signal} after ${patience} ms` : output }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

after(leakCheck)
