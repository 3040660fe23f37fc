// `holdfast hold` as a script uses it: it holds, releases, and ends with the script; and what happens when a process dies.
// Second tier because it takes most of a minute; hold/owner.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { after, afterEach, describe as group, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { target } from '../../src/cli/connect.js'
import { withoutDescriptors } from '../support/descriptors.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { alive, bench, describe, kill, type Running, stateOf } from './support/cli.js'

const { folder, url, cli, script, left, close } = bench()
after(close)
const on = ['--on', url]

let scripts = 0
/** A script that leads a process group, as from a terminal or cron. It notes its own process id. */
function leading(text: string): { running: Running; pid: () => Promise<number> } {
  scripts++
  const [file, pidFile] = [join(folder, `script-${scripts}.sh`), join(folder, `script-${scripts}.pid`)]
  writeFileSync(file, `echo $$ > ${pidFile}\nnode=$1 main=$2\nholdfast() { "$node" "$main" "$@"; }\n${text}`)
  const running = script(`exec setsid -w bash --norc ${file} "$node" "$main"`)
  return { running, pid: () => until(() => Number(readOr(pidFile))) }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

async function locksOf(store: string): Promise<{ locks: Locks; close: () => Promise<void> }> {
  const connection = await target(store).connect()
  const locks = createLocks(connection.driver)
  return { locks, close: () => locks.close().then(() => connection.close()) }
}

/** Processes of a hold: the background first, then the keeper. */
function processesOf(): { background: number | undefined; keeper: number | undefined } {
  const lines = describe(left()).split('\n')
  const pidOf = (title: string) => {
    const line = lines.find((one) => one.includes(title))
    return line === undefined ? undefined : Number(line.split(':')[0])
  }
  return { background: pidOf('holdfast hold'), keeper: pidOf('holdfast lock process') }
}

afterEach(async () => {
  await until(() => left().length === 0, { what: `nothing to be left: ${describe(left())}` })
})

test('a script holds a lock for a part of it: others wait, the token grows, and release gives it back', async () => {
  const { running } = leading(`
    set -e
    first=$(holdfast hold part --for $$)
    holdfast hold part --for $$ --no-wait && exit 9 || echo "busy $?"
    holdfast release part --token "$first"
    holdfast release part --token "$first" && exit 9 || echo "again $?"
    second=$(holdfast hold part --for $$ --note here)
    [ "$second" -gt "$first" ]
    holdfast release part --token "$first" && exit 9 || echo "old $?"
    holdfast inspect part --json
    holdfast release part --token "$second" --json
  `)
  const { code, stdout, stderr } = await running.ended
  assert.equal(code, 0, stderr)
  const [busy, released, again, old, standing, last] = stdout.trimEnd().split('\n')
  assert.deepEqual([busy, released, again, old], ['busy 75', 'released "part"', 'again 1', 'old 1'])
  assert.equal(JSON.parse(standing ?? '').holders[0].note, 'here')
  assert.deepEqual(JSON.parse(last ?? ''), { name: 'part', released: 1 })
})

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  test(`the lock is released when its script is ended by ${signal}`, async () => {
    const { running, pid } = leading('holdfast hold mine --for $$ --ttl 10m; read -r _ < <(sleep 60)')
    await until(() => running.stdout() !== '')
    kill(-(await pid()), signal)
    await running.ended
    const next = await cli('run', 'mine', '--wait', '60s', ...on, '--', 'true')
    assert.equal(next.code, 0, next.stderr)
  })
}

test('a script whose lock is force-released is terminated, with its children', async () => {
  const { running, pid } = leading(`
    holdfast hold taken --for $$ --ttl 9s --kill-after 300ms
    trap '' TERM
    (trap '' TERM; sleep 60) &
    sleep 60
  `)
  await until(() => running.stdout() !== '')
  const leader = await pid()
  const { code } = await cli('release', 'taken', '--yes', ...on)
  assert.equal(code, 0)
  await running.ended
  await until(() => !alive(leader))
  // By the process beside it, which outlives it for a moment.
  await until(() => /^holdfast: "taken": .*(stopping|ending) the script with SIG/m.test(running.stderr()))
})

test('why a script is ended is told through its pipe, and that of a substitution is not kept open', async () => {
  const told = join(folder, 'told.txt')
  const { running } = leading(`
    exec 2> >(exec setsid cat > ${told})
    echo there >&2
    until [ -s ${told} ]; do sleep 0.05; done
    token=$(holdfast hold piped --for $$ --ttl 9s 2>&1)
    holdfast release piped --token "$token"
    holdfast hold piped --for $$ --ttl 9s
    sleep 60
  `)
  await until(() => /released "piped"\n\d+\n/.test(running.stdout()))
  const { code } = await cli('release', 'piped', '--yes', ...on)
  assert.equal(code, 0)
  await running.ended
  await until(() => /^holdfast: "piped": .*(stopping|ending) the script with SIG/m.test(readOr(told)))
})

test('a script that holds for longer than --max-hold is ended', async () => {
  const { running } = leading('holdfast hold long --for $$ --max-hold 200ms; sleep 60')
  const ended = await running.ended
  assert.notEqual(ended.code, 0)
})

group('a script never goes on without its lock', () => {
  for (const who of ['background', 'keeper', 'both'] as const) {
    test(`when of the processes beside it is killed: ${who}`, async () => {
      const { running, pid } = leading('holdfast hold guarded --for $$ --ttl 9s; sleep 60')
      await until(() => running.stdout() !== '')
      const leader = await pid()
      const { background = 0, keeper = 0 } = processesOf()
      assert.ok(background > 0 && keeper > 0)
      if (who !== 'keeper') kill(background, 'SIGKILL')
      if (who !== 'background') kill(keeper, 'SIGKILL')
      await running.ended
      await until(() => !alive(leader))
    })
  }
})

test('a release ends in time though the process that holds the lock is stopped, and is carried out later', async () => {
  const { running, pid } = leading('holdfast hold frozen --for $$ --ttl 10m; sleep 600')
  const token = await until(() => running.stdout().trim())
  const leader = await pid()
  const { background = 0 } = processesOf()
  kill(background, 'SIGSTOP')
  await until(() => stateOf(background) === 'T')
  const { code, stdout, stderr } = await cli('release', 'frozen', '--token', token, ...on)
  assert.deepEqual([code, stdout], [69, ''])
  assert.match(
    stderr,
    /^holdfast: "frozen" is not released within 15 s: .* does not react, .*kill -CONT.*\n$/,
  )
  kill(background, 'SIGCONT')
  const next = await cli('run', 'frozen', '--wait', '60s', ...on, '--', 'true')
  assert.equal(next.code, 0, next.stderr)
  assert.ok(alive(leader), 'the script goes on')
  kill(-leader, 'SIGKILL')
  await running.ended
})

test('a lock is held on while the process beside the script has no file descriptor left', async () => {
  const { running, pid } = leading('holdfast hold starved --for $$ --ttl 9s; sleep 60')
  await until(() => running.stdout() !== '')
  const leader = await pid()
  const { locks, close } = await locksOf(url)
  const left = async () => (await locks.inspect('starved')).holders[0]?.expiresIn ?? 0
  await withoutDescriptors(processesOf().background ?? 0, async () => {
    // Between two renewals it has looked for the script several times.
    for (let renewals = 0, before = await left(); renewals < 2; renewals++) {
      await until(async () => {
        const [last, now] = [before, await left()]
        before = now
        return now > last || now === 0
      })
    }
    assert.equal(await locks.mutex('starved').tryAcquire(), undefined)
  })
  kill(-leader, 'SIGKILL')
  await running.ended
  const next = await locks.mutex('starved').acquire({ wait: 20_000 })
  await next.release()
  await close()
})

/** A script whose hold waits for `name`; it ends once its fifo is written to. */
function waitingFor(name: string) {
  const [pidFile, fifo] = [join(folder, `${name}.pid`), join(folder, `${name}.fifo`)]
  const { running } = leading(`
    mkfifo ${fifo}
    "$node" "$main" hold ${name} --for $$ --wait forever > ${name}.token &
    echo $! > ${pidFile}
    wait $!
    echo "ended $?"
    read -r line < ${fifo}
  `)
  return {
    running,
    hold: () => until(() => Number(readOr(pidFile))),
    token: () => readOr(join(folder, `${name}.token`)),
    finish: () => writeFileSync(fifo, 'over\n'),
  }
}

test('a hold that is ended while it waits for the lock leaves nothing, and the script continues', async () => {
  const { locks, close } = await locksOf(url)
  const waiters = async () => (await locks.inspect('awaited')).waiters.length
  const lease = await locks.mutex('awaited').acquire()
  const { running, hold, finish } = waitingFor('awaited')
  await until(async () => (await waiters()) === 1)
  kill(await hold(), 'SIGKILL')
  await until(async () => (await waiters()) === 0)
  await until(() => running.stdout() === 'ended 137\n')
  assert.equal(await lease.release(), 'released')
  const next = await locks.mutex('awaited').tryAcquire()
  assert.ok(next, 'nobody else has it')
  await next.release()
  finish()
  assert.equal((await running.ended).code, 0)
  await close()
})

test('a hold that is suspended while it waits leaves the queue, and waits anew once it is continued', async () => {
  const { locks, close } = await locksOf(url)
  const waiters = async () => (await locks.inspect('paused')).waiters.length
  const lease = await locks.mutex('paused').acquire()
  const { running, hold, token, finish } = waitingFor('paused')
  await until(async () => (await waiters()) === 1)
  kill(await hold(), 'SIGTSTP')
  await until(async () => stateOf(await hold()) === 'T')
  await until(async () => (await waiters()) === 0)
  assert.equal(await lease.release(), 'released')
  const next = await locks.mutex('paused').tryAcquire()
  assert.ok(next, 'a stopped process was granted it')
  kill(await hold(), 'SIGCONT')
  await until(async () => (await waiters()) === 1)
  await next.release()
  await until(() => running.stdout() === 'ended 0\n')
  assert.deepEqual(
    (await locks.inspect('paused')).holders.map((holder) => `${holder.token}\n`),
    [token()],
  )
  finish()
  assert.equal((await running.ended).code, 0)
  await close()
})

test('a hold whose token could not be read does not count: the lock is released', async () => {
  const { running } = leading(
    'holdfast hold unread --for $$ --ttl 10m >/dev/full && exit 9\necho "$?" >&2\nsleep 0.5\nholdfast run unread --wait 60s -- true',
  )
  const { code, stderr } = await running.ended
  assert.equal(code, 0, stderr)
  // A store that is too slow says so instead.
  assert.doesNotMatch(stderr, /could not be printed.*\n(?!74\n)/)
})

test('nobody else of the machine may connect to the socket that releases it, whatever the umask', async () => {
  const shared = join(folder, 'shared')
  mkdirSync(shared)
  chmodSync(shared, 0o755)
  const { running } = leading(`
    umask 000
    export HOLDFAST_DIR=${shared}
    token=$(holdfast hold alone --for $$ --on ${url})
    stat -c %a ${shared}/hold-*
    holdfast release alone --token "$token" --on ${url}
  `)
  const { code, stdout, stderr } = await running.ended
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^[67]00\nreleased "alone"\n$/)
})

test('HOLDFAST_DIR may be a link of this user to a directory, but not a file', async () => {
  const [real, linked, file] = ['real', 'linked', 'file'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  mkdirSync(real, { mode: 0o700 })
  symlinkSync(real, linked)
  writeFileSync(file, '', { mode: 0o600 })
  const { running } = leading(`
    HOLDFAST_DIR=${file} holdfast hold linked --for $$ --on ${url} && exit 9
    export HOLDFAST_DIR=${linked}
    token=$(holdfast hold linked --for $$ --on ${url})
    holdfast release linked --token "$token" --on ${url}
  `)
  const { code, stdout, stderr } = await running.ended
  assert.equal(code, 0, stderr)
  assert.match(stderr, /file .*; give HOLDFAST_DIR a directory of your own/)
  assert.equal(stdout, 'released "linked"\n')
})

test('nonsensical input is refused before anything is sent to the store', async () => {
  const refused = async (wanted: RegExp, ...args: string[]) => {
    const { code, stderr, stdout } = await cli('hold', ...args, '--on', 'redis://127.0.0.1:1')
    assert.equal(code, 64, stderr)
    assert.match(stderr, wanted)
    assert.equal(stdout, '')
  }
  await refused(/needs to know for which process: holdfast hold x --for \$\$/, 'x')
  await refused(/--for must be the id of a process, as in --for \$\$, got 'abc'/, 'x', '--for', 'abc')
  await refused(/--for must be the id of a process.*got '-5'/, 'x', '--for=-5')
  await refused(/--for 1: the first process/, 'x', '--for', '1')
  await refused(/--for 4194305: there is no such process/, 'x', '--for', '4194305')
  const follower = spawn('sleep', ['600'])
  await refused(/leads its process group, .* start the script with setsid/, 'x', '--for', `${follower.pid}`)
  follower.kill()
  for (const token of ['one', '1e3', '0x10', ' 7', '9007199254740993']) {
    const { code, stderr } = await cli('release', 'x', '--token', token, ...on)
    assert.equal(code, 64, stderr)
    assert.ok(stderr.includes(`--token must be a number that holdfast hold printed, got '${token}'`), stderr)
  }
})

test('an unreachable store is reported, and the script continues', async () => {
  const { running } = leading('holdfast hold x --for $$ --no-wait --on redis://127.0.0.1:1; echo "code $?"')
  const { stdout, stderr } = await running.ended
  assert.equal(stdout, 'code 69\n')
  assert.match(stderr, /ECONNREFUSED/)
})

test('on a server: held, shown with its note, released, and the script is ended when the server goes', async () => {
  const server = await startRedis()
  after(() => server.stop())
  const store = `redis://127.0.0.1:${server.port}`
  const { running, pid } = leading(`
    token=$(holdfast hold far --for $$ --ttl 9s --note here --on ${store})
    holdfast release far --token "$token" --on ${store}
    holdfast hold far --for $$ --ttl 9s --on ${store}
    sleep 60
  `)
  await until(() => /released "far"\n\d+\n/.test(running.stdout()))
  const leader = await pid()
  await server.kill9()
  await running.ended
  await until(() => !alive(leader))
})

for (const json of ['', ' --json']) {
  test(`a release that the store does not answer is not called a release${json}`, async () => {
    const server = await startRedis()
    after(() => server.stop())
    const store = `redis://127.0.0.1:${server.port}`
    const go = join(folder, `go-unanswered${json}`)
    const { running } = leading(`
      token=$(holdfast hold unanswered --for $$ --ttl 25s --on ${store})
      echo held
      until [ -e '${go}' ]; do sleep 0.05; done
      holdfast release unanswered --token "$token" --on ${store}${json}
      echo "code $?"
    `)
    await until(() => running.stdout() !== '')
    await server.kill9()
    writeFileSync(go, '')
    const { stdout, stderr } = await running.ended
    const [, ...said] = stdout.trimEnd().split('\n')
    assert.equal(said.at(-1), 'code 69', stderr)
    const why =
      /^the store did not answer to the release; the lock was held until then, and frees itself within 25s$/
    if (json === '') {
      assert.equal(said.length, 1)
      assert.match(stderr.replace(/\n$/, '').replace(/^holdfast: /, ''), why)
    } else {
      const { event, error } = JSON.parse(said[0] ?? '')
      assert.deepEqual([event, error.code, error.exitCode, stderr], ['failed', 'UNAVAILABLE', 69, ''])
      assert.match(error.message, why)
    }
  })
}

test('a script that has asked to release its lock is left alone, whatever happens to the keeper', async () => {
  const server = await startRedis()
  after(() => server.stop())
  const store = `redis://127.0.0.1:${server.port}`
  const [go, own] = [join(folder, 'go'), join(folder, 'own')]
  // A directory of its own: in the common one are the sockets of other holds, of other test files as well.
  const { running } = leading(`
    export HOLDFAST_DIR=${own}
    token=$(holdfast hold late --for $$ --on ${store})
    echo held
    until [ -e ${go} ]; do sleep 0.05; done
    holdfast release late --token "$token" --on ${store}
    echo "alive after $?"
  `)
  await until(() => running.stdout() !== '')
  const { keeper } = processesOf()
  assert.ok(keeper)
  const [socket = ''] = readdirSync(own).filter((name) => name.startsWith('hold-'))
  const path = join(own, socket)
  server.pause()
  writeFileSync(go, '')
  // The second socket of that path is the connection of the request.
  const sockets = () =>
    readFileSync('/proc/net/unix', 'utf8')
      .split('\n')
      .filter((line) => line.endsWith(path))
  if (process.platform === 'linux')
    await until(() => sockets().length > 1, { within: 20_000, what: 'the request' })
  // The script asks again, by this connection: a byte comes back as soon as the request is read.
  const again = createConnection(path)
  again.on('error', () => undefined)
  again.write('release\n')
  await once(again, 'data')
  kill(keeper, 'SIGKILL')
  const { code, stdout } = await running.ended
  server.resume()
  assert.equal(code, 0)
  assert.match(stdout, /alive after/)
})

after(leakCheck)
