// What only a terminal shows: the line about the wait, ^C, ^Z, reading, questions.
// Second tier because it takes a third of a minute, and needs pseudo-terminals.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill } from './support/cli.js'
import { type Terminal, terminal } from './support/terminal.js'

const { folder, url, main, cli, start, left, close } = bench()
let term: Terminal

before(async () => {
  term = await terminal(folder, { ...process.env, HOLDFAST_URL: url }, main)
})

const heldBy = async (name: string) =>
  JSON.parse((await cli('inspect', name, '--json')).stdout).holders.length as number

test('while it waits, one line says who holds the lock, since when, with what note, and the position in the queue', async () => {
  const holder = start('run', 'import', '--note', 'nightly', '--', 'sleep', '60')
  await until(() => heldBy('import'))
  term.type('holdfast run import --wait forever -- echo "it is"" mine"\n')
  await term.see(/waiting \d+s for "import", 1st in the queue; held for \d+s by .+:\d+ \("nightly"\)/)
  await term.see(/waiting ([2-9]|\d\d)s/)
  kill(holder.pid, 'SIGTERM')
  // The line is taken back before the command writes.
  await term.see('\r\x1b[Kit is mine')
  await term.see('ready> ')
  await holder.ended
})

test('the command reads the terminal, as its standard input and as /dev/tty', async () => {
  term.type(
    `holdfast run reads -- sh -c 'read a; read b </dev/tty; echo "[$a] [$b]"; ps -o tpgid= -o pgid= -p $$'\n`,
  )
  await until(() => heldBy('reads'))
  term.type('one\n')
  term.type('two\n')
  await term.see('[one] [two]')
  await term.see(/(\d+)\s+\1\s/)
  await term.see('ready> ')
})

test('^C ends the command, and a loop around it', async () => {
  const command = `echo "it ""sleeps"; exec sleep 60`
  term.type(`while :; do holdfast run loop -- sh -c '${command}'; done; echo "code $?"\n`)
  await term.see('it sleeps')
  term.type('\x03')
  await term.see('ready> ')
  await until(async () => (await heldBy('loop')) === 0)
  term.type('echo "code $?"\n')
  await term.see('code 130')
  await term.see('ready> ')
})

test('^C that the command deals with itself is its own affair', async () => {
  const command = `trap "exit 4" INT; echo "the trap"" is set"; while :; do sleep 0.02; done`
  term.type(`holdfast run own -- sh -c '${command}'; echo "code $?"\n`)
  // Held is not enough: until the shell has set its trap, ^C ends it.
  await term.see('the trap is set')
  term.type('\x03')
  await term.see('code 4')
  await term.see('ready> ')
})

test('^Z stops it, the lock stays for longer than a ttl, and fg resumes it', async () => {
  term.type(`holdfast run pause --ttl 4s -- sh -c 'echo "it has"" begun"; read a; echo "read $a"; exit 6'\n`)
  await term.see('it has begun')
  term.type('\x1a')
  await term.see('Stopped')
  await term.see('ready> ')
  assert.equal((await cli('run', 'pause', '--wait', '4500ms', '--', 'true')).code, 75)
  term.type('fg; echo "code $?"\n')
  await term.see('main.js')
  term.type('on\n')
  await term.see('read on')
  await term.see('code 6')
  await term.see('ready> ')
})

test('after bg the shell keeps its terminal when the command ends, and learns its exit code', async () => {
  const program = `'${process.execPath}' '${main}'`
  // With a variable of such a name, bash starts the command instead of dash.
  for (const env of ['', 'env A-B=1 ']) {
    term.type(`rm -f go; mkfifo go; echo "a fifo"" is there"\n`)
    await term.see('a fifo is there')
    await term.see('ready> ')
    term.type(
      `${env}${program} run moved -- sh -c 'echo "it has"" begun"; read a <go; echo "it has"" read"; exit 6'\n`,
    )
    await term.see('it has begun')
    term.type('\x1a')
    await term.see('Stopped')
    await term.see('ready> ')
    term.type('bg\n')
    await term.see('ready> ')
    term.type('echo >go\n')
    await term.see('it has read')
    // The shell reads its next line now: not `wait`, after which bash takes the terminal back.
    await until(async () => (await heldBy('moved')) === 0)
    term.type('wait %1; echo "code $?"\n')
    await term.see('code 6')
    await term.see('ready> ')
  }
})

test('a run that is suspended while it waits lets others have the lock; fg and bg let it wait anew', async () => {
  for (const how of ['fg', 'bg']) {
    const holder = start('run', 'turn', '--', 'sleep', '60')
    await until(async () => (await heldBy('turn')) === 1)
    term.type(
      `holdfast run turn --wait forever -- sh -c 'ps -o stat= -p $$; cat; echo "ran in ""the ${how}"'; echo "code $?"\n`,
    )
    await term.see('waiting ')
    term.type('\x1a')
    await term.see('Stopped')
    await term.see('ready> ')
    kill(holder.pid, 'SIGTERM')
    await holder.ended
    assert.equal((await cli('run', 'turn', '--wait', '60s', '--', 'true')).code, 0)
    const next = start('run', 'turn', '--', 'sleep', '60')
    await until(async () => (await heldBy('turn')) === 1)
    term.type(`${how}\n`)
    await until(async () => JSON.parse((await cli('inspect', 'turn', '--json')).stdout).waiters.length === 1)
    kill(next.pid, 'SIGTERM')
    await next.ended
    // Only in the foreground the command has the terminal to read from.
    if (how === 'fg') {
      await term.see(/S\w*\+\s/)
      term.type('\x04')
    }
    await term.see(`ran in the ${how}`)
    await until(async () => (await heldBy('turn')) === 0)
    term.type('\n')
    await term.see('ready> ')
  }
})

test('in the background it does not take what is typed to the shell', async () => {
  term.type(`holdfast run behind -- sh -c 'cat; echo "end of"" input"' &\n`)
  await term.see('end of input')
  term.type('\n')
  await term.see('ready> ')
})

test('a loss on the terminal leaves a usable shell', async () => {
  term.type(`holdfast run gone -- sh -c 'stty -echo; echo "no echo"" now"; read a'; echo "code $?"\n`)
  await term.see('no echo now')
  await cli('release', 'gone', '--yes')
  await term.see('the lease is lost')
  await term.see('code 76')
  await term.see('ready> ')
})

test('release asks, and takes no for an answer', async () => {
  const holder = start('run', 'asked', '--', 'sleep', '60')
  await until(() => heldBy('asked'))
  term.type('holdfast release asked; echo "code $?"\n')
  await term.see(/exclusive .+:\d+/)
  await term.see('Release it anyway? [y/N] ')
  term.type('\n')
  await term.see('code 1')
  await term.see('ready> ')
  // ^D: the input ends without an answer.
  term.type('holdfast release asked; echo "code $?"\n')
  await term.see('[y/N] ')
  term.type('\x04')
  await term.see(/holdfast: nothing was released\s+code 1/)
  await term.see('ready> ')
  term.type('holdfast release asked\n')
  await term.see('[y/N] ')
  term.type('\x03')
  await term.see('ready> ')
  term.type('echo "code $?"\n')
  await term.see('code 130')
  await term.see('ready> ')
  assert.equal(await heldBy('asked'), 1)
  term.type('holdfast release asked; echo "code $?"\n')
  await term.see('[y/N] ')
  term.type('y\n')
  await term.see('released "asked"; its holder was notified')
  await term.see('code 0')
  assert.equal((await holder.ended).code, 76)
})

test('tables and findings are bold and coloured on a terminal, but not with NO_COLOR', async () => {
  const isPainted = (text: string) => text.split('\x1b[').some((part, i) => i > 0 && /^\d+m/.test(part))
  const env = 'env -u NO_COLOR -u FORCE_COLOR -u CI TERM=xterm'
  const program = `'${process.execPath}' '${main}'`
  for (const command of ['doctor', `run colours -- ${program} ls`]) {
    const from = term.shown().length
    term.type(`${env} ${program} ${command}; echo "with"" colours"\n`)
    await term.see('with colours')
    const between = term.shown().length
    term.type(`${env} NO_COLOR=1 ${program} ${command}; echo "with"" none"\n`)
    await term.see('with none')
    assert.equal(isPainted(term.shown().slice(from, between)), true, command)
    assert.equal(isPainted(term.shown().slice(between)), false, command)
    assert.match(term.shown().slice(between), command === 'doctor' ? /ok +\w/ : /NAME +MODE/)
  }
  await term.see('ready> ')
})

test('nothing is left running', async () => {
  await term.close()
  assert.doesNotMatch(stripVTControlCharacters(term.shown()), /Error|undefined|\[object/)
  await until(() => left().length === 0, { what: 'all processes in the folder to end' })
})

after(close)
after(leakCheck)
