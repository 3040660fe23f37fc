// The example with its own packages: installed from its lock file, compiled, and run against a real Redis.
// Second tier because it installs packages.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { startRedis } from './support/servers/redis.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-bullmq-'))

test('the BullMQ worker compiles against the real package, and its jobs redeem each point once', async () => {
  for (const file of ['package.json', 'package-lock.json', 'tsconfig.json', 'worker.ts'])
    cpSync(join(root, 'examples/bullmq', file), join(folder, file))
  // Not `npm ci`: of the optional native part the lock file may lack other platforms. It is left out, and none of their scripts runs.
  const install = [
    'install',
    '--prefer-offline',
    '--omit=optional',
    '--omit=dev',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--silent',
  ]
  execFileSync('npm', install, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  symlinkSync(root, join(folder, 'node_modules/holdfast'))
  const run = (args: readonly string[], env = {}) =>
    spawnSync(process.execPath, args, {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, ...env },
      timeout: 180_000,
    })
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const types = join(root, 'node_modules/@types')
  const compiled = run([compiler, '-p', '.', '--preserveSymlinks', '--typeRoots', types])
  assert.equal(compiled.stdout, '')
  await using server = await startRedis()
  const { status, stdout, stderr } = run(['--preserve-symlinks', 'build/worker.js'], {
    REDIS_URL: server.url,
  })
  assert.equal(status, 0, stdout + stderr)
  assert.match(stdout, /ten redemptions of 10 points: 0 left/)
})

after(() => rmSync(folder, { recursive: true, force: true }))
after(leakCheck)
