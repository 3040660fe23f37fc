// `local:` is one place for each user, whatever the environment says.
// Second tier because it starts a process for each environment.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { localDirectory } from '../../src/cli/local-directory.js'
import { defaultDirectory } from '../../src/drivers/local/runtime-directory.js'
import { leakCheck } from '../support/leaks.js'
import { bench } from './support/cli.js'

const uid = process.getuid?.() ?? 0

test('a login, cron, su and ssh mean the same directory; HOLDFAST_DIR means another', () => {
  const environments: readonly NodeJS.ProcessEnv[] = [
    {},
    { TMPDIR: '/var/tmp', XDG_RUNTIME_DIR: '/run/user/1000' },
    { HOME: '/home/me', XDG_RUNTIME_DIR: '/run/user/0', TMP: '/x', TEMP: '/y' },
  ]
  for (const env of environments) assert.equal(defaultDirectory(env), `/tmp/holdfast-${uid}`)
  assert.equal(defaultDirectory({ HOLDFAST_DIR: '/run/app' }), '/run/app')
})

test('a process without an environment uses that directory, too', () => {
  const module = new URL('../../src/drivers/local/runtime-directory.js', import.meta.url).href
  const script = `import(${JSON.stringify(module)}).then((home) => console.log(home.defaultDirectory()))`
  const { stdout } = spawnSync(process.execPath, ['-e', script], { env: {}, encoding: 'utf8' })
  assert.equal(stdout, `/tmp/holdfast-${uid}\n`)
})

test('two runs on local: exclude each other, one in the environment of a login, the other in none', async () => {
  const { script, folder, main, close } = bench('local:')
  try {
    // The directory is that of the whole machine; so the name is one that nobody else uses.
    const name = `place/${folder}`
    const login = `HOME=/root USER=me XDG_RUNTIME_DIR=${folder} TMPDIR=${folder} TMP=${folder} LANG=C`
    const inner = `env -i '${process.execPath}' '${main}' run '${name}' --on local: --no-wait -q -- /bin/true; echo "none: $?"`
    writeFileSync(join(folder, 'inner.sh'), inner)
    const outer = `env -u HOLDFAST_DIR ${login} "$node" "$main" run '${name}' --on local: -- bash inner.sh`
    const both = await script(outer).ended
    assert.deepEqual([both.code, both.stdout, both.stderr], [0, 'none: 75\n', ''])
    const reversed = `env -i PATH="$PATH" "$node" "$main" run '${name}' --on local: -- env ${login} "$node" "$main" run '${name}' --on local: --no-wait -q -- true`
    const other = await script(reversed).ended
    assert.deepEqual([other.code, other.stdout, other.stderr], [75, '', ''])
    const free = await script('bash inner.sh').ended
    assert.deepEqual([free.stdout, free.stderr], ['none: 0\n', ''])
  } finally {
    close()
  }
})

test('in a working directory that has been removed the lock is held, and the command runs there', async () => {
  const { script, close } = bench()
  try {
    // What the shells between say about their directory on stderr is their own affair.
    const { code, stdout, stderr } = await script(
      'mkdir gone && cd gone && rmdir ../gone; holdfast run x -- readlink /proc/self/cwd; echo $?; holdfast ls',
    ).ended
    assert.match(stdout, /\/gone \(deleted\)\n0\nno lock is held/, stderr)
    assert.equal(code, 0)
  } finally {
    close()
  }
})

test('the command line means the directory of the driver', () => {
  assert.equal(localDirectory(''), defaultDirectory())
  assert.equal(localDirectory('///run/app'), '/run/app')
  assert.equal(localDirectory('locks'), join(process.cwd(), 'locks'))
})

test('ls says in which directory it looked, also when nothing is held there', async () => {
  const { cli, script, folder, url, main, close } = bench()
  try {
    const directory = url.slice('local:'.length)
    assert.equal((await cli('ls')).stdout, `no lock is held or waited for in ${directory}\n`)
    assert.equal(
      (await cli('ls', 'a')).stdout,
      `no lock that begins with "a" is held or waited for in ${directory}\n`,
    )
    assert.deepEqual(JSON.parse((await cli('ls', '--json')).stdout), { store: url, directory, locks: [] })
    const held = await cli('run', 'x', '--', process.execPath, main, 'ls')
    assert.match(held.stdout, /^NAME.*\nx .*\n\nthe locks in (.+)\n$/)
    const other = join(folder, 'other')
    const moved = await script('holdfast ls --json -v', { HOLDFAST_URL: 'local:', HOLDFAST_DIR: other }).ended
    assert.deepEqual(JSON.parse(moved.stdout), { store: 'local:', directory: other, locks: [] })
    assert.deepEqual(JSON.parse(moved.stderr), { event: 'store', url: 'local:', directory: other })
    const told = await script('holdfast ls -v', { HOLDFAST_URL: 'local:', HOLDFAST_DIR: other }).ended
    assert.equal(told.stderr, `holdfast: the store is local: in ${other}\n`)
  } finally {
    close()
  }
})

test('a command that only looks creates no directory', async () => {
  const { cli, url, close } = bench()
  try {
    for (const args of [['ls'], ['inspect', 'x'], ['top', '--once'], ['doctor'], ['release', 'x', '--yes']]) {
      const { code, stderr } = await cli(...args)
      assert.deepEqual([code, stderr], [args[0] === 'release' ? 1 : 0, ''], args[0])
    }
    assert.equal(existsSync(url.slice('local:'.length)), false)
  } finally {
    close()
  }
})

after(leakCheck)
