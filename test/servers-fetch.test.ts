// The fetch script against a small local Debian mirror: its promises about concurrency, crashes and errors.
// Second tier because the servers of the tests seldom change.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { leakCheck } from './support/leaks.js'
import { checkout } from './support/servers/places.js'
import { until } from './support/until.js'

const home = mkdtempSync(join(tmpdir(), 'holdfast-fetch-'))
const script = join(home, 'fetch.sh')
const mirror = join(home, 'mirror')
const architecture = (): string => execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
after(() => rmSync(home, { recursive: true }))

/** A mirror with one package in one suite; unsigned, so apt is told to take it. */
before(() => {
  const tree = join(home, 'tree')
  mkdirSync(join(tree, 'DEBIAN'), { recursive: true })
  mkdirSync(join(tree, 'usr/bin'), { recursive: true })
  const control = `Package: tiny\nVersion: 1\nArchitecture: ${architecture()}\nMaintainer: t\nDescription: t\n`
  writeFileSync(join(tree, 'DEBIAN/control'), control)
  writeFileSync(join(tree, 'usr/bin/tiny'), '#!/bin/sh\n')
  const index = join(mirror, `dists/stable/main/binary-${architecture()}`)
  mkdirSync(index, { recursive: true })
  const deb = join(mirror, 'tiny.deb')
  execFileSync('dpkg-deb', ['--build', '--root-owner-group', tree, deb], { stdio: 'ignore' })
  const bytes = readFileSync(deb)
  const hash = createHash('sha256').update(bytes).digest('hex')
  const packages = `${control}Filename: tiny.deb\nSize: ${bytes.length}\nSHA256: ${hash}\n`
  writeFileSync(join(index, 'Packages'), packages)
  const listed = `${createHash('sha256').update(packages).digest('hex')} ${packages.length} main/binary-${architecture()}/Packages`
  writeFileSync(
    join(mirror, 'dists/stable/Release'),
    `Suite: stable\nCodename: stable\nDate: ${new Date().toUTCString()}\nArchitectures: ${architecture()}\nComponents: main\nSHA256:\n ${listed}\n`,
  )
  writeFileSync(
    join(home, 'apt.conf'),
    'Acquire::AllowInsecureRepositories "true"; APT::Get::AllowUnauthenticated "true";',
  )
  copyFileSync(join(checkout, 'scripts/servers/fetch.sh'), script)
  chmodSync(script, 0o755)
  recipe('tiny', 'usr/bin/tiny', 'tiny')
})

function recipe(name: string, proof: string, packages: string): void {
  writeFileSync(join(home, `${name}.recipe`), `suite stable\nproof ${proof}\npackage ${packages}\n`)
}

interface Run {
  readonly code: number | null
  readonly said: string
}

function start(cache: string, names: readonly string[], more: Record<string, string> = {}) {
  const env = {
    ...process.env,
    HOLDFAST_MIRROR: `file:${mirror}`,
    APT_CONFIG: join(home, 'apt.conf'),
    ...more,
  }
  const child = spawn(script, names, { env: { ...env, HOLDFAST_SERVERS: join(home, cache) }, detached: true })
  let said = ''
  child.stderr.on('data', (text) => {
    said += text
  })
  child.stdout.resume()
  const done = new Promise<Run>((resolve) => child.on('close', (code) => resolve({ code, said })))
  return { child, done }
}

const fetch = (cache: string, names: readonly string[], more?: Record<string, string>) =>
  start(cache, names, more).done
const leftovers = (cache: string) =>
  readdirSync(join(home, cache)).filter((name) => /^\.(unpacking|old)/.test(name))

it('fetches what is missing once, however many ask at the same time', async () => {
  const runs = await Promise.all([1, 2, 3].map(() => fetch('together', ['tiny'])))
  assert.deepEqual(
    runs.map(({ code }) => code),
    [0, 0, 0],
    runs.map(({ said }) => said).join('\n'),
  )
  assert.equal(runs.filter(({ said }) => said.includes('tiny is ready')).length, 1)
  assert.ok(existsSync(join(home, 'together/tiny/usr/bin/tiny')))
  assert.deepEqual(leftovers('together'), [])
  assert.deepEqual(await fetch('together', ['tiny']), { code: 0, said: '' })
})

it('fetches again when the recipe changed', async () => {
  recipe('changing', 'usr/bin/tiny', 'tiny')
  assert.match((await fetch('changing', ['changing'])).said, /changing is ready/)
  writeFileSync(join(home, 'changing/changing/old'), '')
  recipe('changing', 'usr/bin', 'tiny')
  assert.match((await fetch('changing', ['changing'])).said, /changing is ready/)
  assert.equal(existsSync(join(home, 'changing/changing/old')), false)
})

it('shows nothing half-done when it is killed, and finishes the next time', async () => {
  // In its middle it is paused: a machine that is slow to look would find it at its end.
  const tools = join(home, 'standing-still')
  const unpacked = join(home, 'unpacked')
  mkdirSync(tools)
  const path = process.env['PATH']
  const dpkg = `#!/bin/sh\nPATH='${path}'\ndpkg "$@" && touch '${unpacked}'\nexec sleep 600\n`
  writeFileSync(join(tools, 'dpkg'), dpkg, { mode: 0o755 })
  const { child, done } = start('killed', ['tiny'], { PATH: `${tools}:${path}` })
  await until(() => existsSync(unpacked))
  assert.ok(existsSync(join(home, 'killed/.unpacking-tiny')))
  process.kill(-(child.pid as number), 'SIGKILL')
  await done
  assert.equal(existsSync(join(home, 'killed/tiny')), false)
  assert.equal((await fetch('killed', ['tiny'])).code, 0)
  assert.ok(existsSync(join(home, 'killed/tiny/usr/bin/tiny')))
  assert.deepEqual(leftovers('killed'), [])
})

it('unpacks an npm package only if its checksum is the known one, without running any of its code', async () => {
  const made = join(home, 'npm-package')
  mkdirSync(join(made, 'bin'), { recursive: true })
  const scripts = { postinstall: `touch ${home}/ran` }
  writeFileSync(join(made, 'package.json'), JSON.stringify({ name: 'tiny', version: '1.0.0', scripts }))
  writeFileSync(join(made, 'bin/tiny'), '#!/bin/sh\n')
  writeFileSync(join(home, 'packaged.recipe'), `npm file:${made}\nproof bin/tiny\n`)
  const sums = join(home, 'npm.sha512')
  writeFileSync(sums, '')
  const unknown = await fetch('npm', ['packaged'])
  assert.equal(unknown.code, 1)
  assert.match(unknown.said, /what npm gave for file:.* is not what scripts\/servers\/npm\.sha512 says/)
  writeFileSync(sums, `${'0'.repeat(128)}  file:${made}\n`)
  assert.match((await fetch('npm', ['packaged'])).said, /is not what .* says/)
  assert.equal(existsSync(join(home, 'npm/packaged')), false)
  execFileSync('npm', ['pack', '--silent', '--pack-destination', home, made])
  const hash = createHash('sha512')
    .update(readFileSync(join(home, 'tiny-1.0.0.tgz')))
    .digest('hex')
  writeFileSync(sums, `${hash}  file:${made}\n`)
  assert.match((await fetch('npm', ['packaged'])).said, /packaged is ready/)
  assert.ok(existsSync(join(home, 'npm/packaged/bin/tiny')))
  assert.equal(existsSync(join(home, 'ran')), false)
  assert.deepEqual(leftovers('npm'), [])
  writeFileSync(join(home, 'absent.recipe'), `npm file:${made}/absent\nproof bin/tiny\n`)
  assert.match((await fetch('npm', ['absent'])).said, /cannot fetch 'absent' from npm.*absent\.recipe/s)
  writeFileSync(join(home, 'empty-package.recipe'), `npm file:${made}\nproof bin/other\n`)
  assert.match((await fetch('npm', ['empty-package'])).said, /cannot unpack 'empty-package'.*bin\/other/s)
})

it('says which server, which suite and which package when it cannot', async () => {
  recipe('renamed', 'usr/bin/tiny', 'tiny no-such-package')
  const renamed = await fetch('wrong', ['renamed', 'tiny'])
  assert.equal(renamed.code, 1)
  assert.match(renamed.said, /cannot fetch 'renamed' from Debian 'stable'.*no-such-package.*renamed\.recipe/s)
  assert.ok(existsSync(join(home, 'wrong/tiny')), 'the other one is fetched all the same')
  recipe('empty', 'usr/bin/other', 'tiny')
  assert.match((await fetch('wrong', ['empty'])).said, /unpacked, but usr\/bin\/other is not in it/)
  assert.match((await fetch('wrong', ['nonsense'])).said, /no server is called 'nonsense'/)
  const away = await fetch('away', ['tiny'], { HOLDFAST_MIRROR: `file:${home}/nowhere` })
  assert.equal(away.code, 1)
  assert.match(away.said, /cannot read the package lists of Debian 'stable'/)
  const bare = join(home, 'bare')
  mkdirSync(bare)
  for (const tool of ['bash', 'basename', 'dirname', 'cmp', 'sed', 'env', 'cat']) {
    execFileSync('ln', ['-s', execFileSync('which', [tool], { encoding: 'utf8' }).trim(), join(bare, tool)])
  }
  const elsewhere = await fetch('elsewhere', ['tiny'], { PATH: bare })
  assert.match(elsewhere.said, /this machine has no apt-get.*HOLDFAST_SERVERS/s)
})

after(leakCheck)
