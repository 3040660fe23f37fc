// `local:` is one place for each user, whatever the environment says.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, test } from 'node:test'
import { defaultDirectory } from '../../src/drivers/local/runtime-directory.js'
import { leakCheck } from '../support/leaks.js'

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

test('a process without an environment means it, too', () => {
  const module = new URL('../../src/drivers/local/runtime-directory.js', import.meta.url).href
  const script = `import(${JSON.stringify(module)}).then((home) => console.log(home.defaultDirectory()))`
  const { stdout } = spawnSync(process.execPath, ['-e', script], { env: {}, encoding: 'utf8' })
  assert.equal(stdout, `/tmp/holdfast-${uid}\n`)
})

after(leakCheck)
