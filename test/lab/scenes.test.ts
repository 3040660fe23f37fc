// Every scene of the lab on real servers: the plain lock really fails, holdfast stands, and the page matches the results.
// Second tier because every scene starts servers of its own.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { asExpected, runScene, type SceneResult, scenes } from '../../lab/scenes/run-scene.js'
import { Servers } from '../../lab/scenes/servers.js'
import { manifest, read, root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

const page = read('docs/lab.md')
const folder = mkdtempSync(join(tmpdir(), 'holdfast-lab-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const servers = new Servers()
after(() => servers[Symbol.asyncDispose]())

// A scene mostly waits, so a few are played at a time.
describe('the lab', { concurrency: 3 }, () => {
  for (const scene of scenes) {
    test(`${scene.name}: ${scene.naive.title} fails, ${scene.holdfast.title} stands`, async () => {
      const played = await runScene(scene, servers)
      const { naive, holdfast } = played
      assert.ok(asExpected(played), `${naive.outcome.saw} | ${holdfast.outcome.saw}`)
      assert.deepEqual(untold(played), [])
      for (const { timeline } of [naive, holdfast]) assert.ok(timeline.rows.length >= 2)
    })
  }
})

/** What was seen and does not stand in the section of its scene, counts and times aside. */
function untold({ scene, naive, holdfast }: SceneResult): string[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(scene.title)) ?? ''
  const plain = (text: string) => text.replace(/\s+/g, ' ').replace(/\d+(\.\d+)?/g, '#')
  const { story, holdfastDoes } = scene
  return [story, naive.outcome.saw, holdfast.outcome.saw, holdfastDoes].filter(
    (text) => !plain(section).includes(plain(text)),
  )
}

test('the page has both pictures of every scene, and leads on', () => {
  for (const { name, page: more } of scenes) {
    for (const way of ['naive', 'holdfast']) {
      assert.ok(page.includes(`(lab/${name}-${way}.svg)`), name)
      assert.ok(existsSync(join(root, `docs/lab/${name}-${way}.svg`)), name)
    }
    assert.ok(page.includes(`(${more})`), more)
  }
})

test('holdfast lab plays a scene, shows who held when, and draws it', () => {
  const { status, stdout, stderr } = run('lab', 'long-work', '--svg', folder)
  assert.equal(status, 0, stderr)
  assert.match(stdout, /✗ SET NX PX, delete if mine: 2 were added, the number grew by 1/)
  assert.match(stdout, /✓ holdfast\/redis: 2 were added, the number grew by 2/)
  assert.match(stdout, /A +│▐█+#1█+/)
  assert.match(stdout, /1 of 1/)
  assert.match(readFileSync(join(folder, 'long-work-naive.svg'), 'utf8'), /class="bad"/)
})

test('holdfast lab says which scenes there are, also to one who names another', () => {
  const { status, stdout } = run('lab', '--list')
  assert.equal(status, 0)
  const [list = '', servers] = stdout.split('\n\n')
  assert.deepEqual(
    list.split('\n').map((line) => line.split(/ +/).slice(0, 2)),
    scenes.map(({ name, store }) => [name, store]),
  )
  assert.match(servers ?? '', /fetch\.sh redis7 java17 zookeeper etcd35 consul mariadb10 postgres15/)
  const unknown = run('lab', 'no-such-scene')
  assert.equal(unknown.status, 64)
  assert.match(unknown.stderr, /no scene is called no-such-scene; there are: no-expiry, /)
})

test('holdfast lab on a machine that cannot get a server says which one, why, and what to do', () => {
  const { status, stdout, stderr } = runAt(root, ['lab', 'dead-leader'], {
    HOLDFAST_SERVERS: join(folder, 'empty'),
    HOLDFAST_MIRROR: `file:${join(folder, 'no-mirror')}`,
  })
  assert.equal(status, 69)
  assert.match(
    stderr,
    /dead-leader could not be played: the server 'etcd35' is missing and could not be fetched/,
  )
  assert.match(stderr, /cannot read the package lists of Debian/)
  assert.match(stderr, /scripts\/servers\/fetch\.sh etcd35/)
  assert.match(stdout, /0 of 1/)
})

test('holdfast lab outside a checkout says where to get it', () => {
  const away = join(folder, 'package')
  cpSync(join(root, 'build/dist'), join(away, 'build/dist'), { recursive: true })
  cpSync(join(root, 'package.json'), join(away, 'package.json'))
  const { status, stderr } = runAt(away, ['lab'])
  assert.equal(status, 69)
  assert.match(stderr, /not part of the package: clone the project, then npm ci && npm run lab, on Linux/)
})

function run(...words: readonly string[]) {
  return runAt(root, words)
}

function runAt(place: string, words: readonly string[], env: NodeJS.ProcessEnv = {}) {
  return spawnSync(process.execPath, [join(place, manifest.bin['holdfast'] ?? ''), ...words], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    timeout: 180_000,
    killSignal: 'SIGKILL',
  })
}

after(leakCheck)
