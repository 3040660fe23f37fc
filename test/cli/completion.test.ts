// `holdfast completion`: what the shells offer. bash is always there; zsh and fish are asked where they are installed.
// Second tier because it starts every shell there is.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { bench } from './support/cli.js'
import { terminal } from './support/terminal.js'

const { folder, url, main, cli, script, close } = bench()

before(() => {
  const config = join(folder, 'holdfast.json')
  writeFileSync(config, JSON.stringify({ stores: { prod: url, preview: url } }))
  chmodSync(config, 0o644)
  writeFileSync(join(folder, 'orders.json'), '{}')
  writeFileSync(join(folder, 'my orders.json'), '{}')
  mkdirSync(join(folder, 'certificates'))
})

/** The words of a line, the last of them unfinished, and what must and must not be offered for that. */
const lines: readonly [words: string[], offered: string[], not: string[]][] = [
  [[''], ['run', 'ls', 'inspect', 'help', 'completion', '--version'], ['--on', 'memory:']],
  [['r'], ['run', 'release'], ['ls']],
  [['run', '--m'], ['--min-hold', '--max-hold'], ['--wait']],
  [['run', 'x', '--'], ['--wait', '--on'], ['--yes']],
  [['release', '-'], ['--yes', '--on'], ['--wait']],
  [
    ['run', '--on', ''],
    ['prod', 'preview', 'local:', 'redis://', 'postgres://'],
    ['memory:', 'memory://'],
  ],
  [['run', '--on', 'p'], ['prod', 'preview', 'postgres://'], ['local:']],
  [['ls', '--on', '=', 'pro'], ['prod'], ['preview']],
  [['ls', '--on', '='], ['prod', 'local:'], ['--on']],
  [['run', 'x', '--wait', ''], [], ['prod', '--wait']],
  [['demo', '--orders', 'ord'], ['orders.json'], ['holdfast.json']],
  [['help', 'in'], ['inspect'], ['run']],
  [['completion', ''], ['bash', 'zsh', 'fish'], []],
  [['run', 'x', '--', 'mkfif'], ['mkfifo'], []],
  [['run', 'x', '--', 'git', '--'], [], ['--wait', '--on', '--version']],
  [['run', 'x', '--', 'run', ''], [], ['--wait', 'run']],
  [['inspect', '--', 'mkfif'], [], ['mkfifo']],
  [['nothing', ''], [], ['run']],
]

test('bash offers commands, options, stores, files and the command to run', async () => {
  const asked = lines.map(([words]) => `ask holdfast ${words.map((word) => `'${word}'`).join(' ')}`)
  const { stdout, stderr } = await script(`
    source <(holdfast completion bash)
    ask() {
      COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
      "$function" holdfast "\${COMP_WORDS[COMP_CWORD]}"
      echo ":$(printf ' %s' "\${COMPREPLY[@]}") "
    }
    function=$(complete -p holdfast | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
    ${asked.join('\n')}
  `).ended
  assert.equal(stderr, '')
  const answers = stdout.split('\n')
  for (const [i, [words, offered, not]] of lines.entries()) {
    const answer = answers[i] ?? ''
    for (const word of offered)
      assert.ok(answer.includes(` ${word} `), `${words.join(' ')}▮ offers ${answer}, not ${word}`)
    for (const word of not) assert.ok(!answer.includes(` ${word} `), `${words.join(' ')}▮ offers ${word}`)
  }
})

test('on a terminal, the tabulator key completes a command and a store', async () => {
  const shell = await terminal(folder, { ...process.env, HOLDFAST_URL: url }, main)
  try {
    shell.type('source <(holdfast completion bash)\n')
    await shell.see('ready> ', 60_000)
    shell.type('holdfast insp\t')
    await shell.see('holdfast inspect ', 60_000)
    shell.type('x --on pro\t')
    await shell.see('x --on prod ', 60_000)
    shell.type('-v\n')
    await shell.see("'prod' in ", 60_000)
    await shell.see('ready> ', 60_000)
    shell.type('holdfast demo --orders my\t')
    await shell.see('my\\ orders.json ', 60_000)
    shell.type('\x15holdfast demo --orders certif\t')
    await shell.see('certificates/', 60_000)
  } finally {
    await shell.close()
  }
})

test("on a terminal, the tabulator key completes the arguments of a run's command: files, or what bash-completion knows", async () => {
  const shell = await terminal(folder, { ...process.env, HOLDFAST_URL: url }, main)
  try {
    shell.type('source <(holdfast completion bash)\n')
    await shell.see('ready> ', 60_000)
    shell.type('holdfast run x -- cat my\t')
    await shell.see('my\\ orders.json ', 60_000)
    // In its place: it gets the index of the command's word.
    shell.type(`\x15_command_offset() { COMPREPLY=("word-$1-of-\${COMP_WORDS[$1]}"); }\n`)
    await shell.see('ready> ', 60_000)
    shell.type('holdfast run x -- git \t')
    await shell.see('git word-4-of-git ', 60_000)
  } finally {
    await shell.close()
  }
})

const there = (shell: string) => spawnSync(shell, ['--version']).error === undefined

test('the script for zsh can be read by zsh', { skip: !there('zsh') && 'there is no zsh' }, async () => {
  const { code, stderr } = await script('zsh -n <(holdfast completion zsh)').ended
  assert.deepEqual([code, stderr], [0, ''])
})

test('fish offers the same', { skip: !there('fish') && 'there is no fish' }, async () => {
  const { stdout } = await script(`
    mkdir bin; printf '#!/bin/sh\\nexec "%s" "%s" "$@"\\n' "$node" "$main" > bin/holdfast; chmod +x bin/holdfast
    holdfast completion fish > holdfast.fish
    PATH=$PWD/bin:$PATH fish --no-config -c 'source holdfast.fish; complete -C "holdfast run --on p"; complete -C "holdfast insp"; complete -C "holdfast run x -- cat orders"; complete -C "holdfast run x -- mkfif"; complete -C "holdfast run x -- holdfast run y -- cat certif"; complete -C "holdfast run x -- cat --o"'
  `).ended
  assert.match(stdout, /^prod\b/m)
  assert.match(stdout, /^inspect\b/m)
  for (const found of ['orders.json', 'mkfifo', 'certificates/'])
    assert.ok(stdout.includes(`\n${found}`), stdout)
  assert.doesNotMatch(stdout, /^--on\b/m)
})

test('scripts for zsh and fish name every command and option of run', async () => {
  const options = (await cli('help', 'run')).stdout.match(/(?<=^ {7}(-\w, )?--)[a-z-]+( <|$)/gm) ?? []
  assert.ok(options.length > 10)
  const [zsh, fish] = [(await cli('completion', 'zsh')).stdout, (await cli('completion', 'fish')).stdout]
  for (const [option = '', value] of options.map((text) => text.split(' '))) {
    // What takes a value has a =, without which zsh completes nothing after --on=.
    assert.ok(zsh.includes(`'--${option}${value === undefined ? '' : '='}[`), option)
    assert.ok(fish.includes(` -l ${option} `), option)
  }
})

test('where zsh and fish are missing, their scripts are checked for open quotes and blocks', async () => {
  // bash reads as much of zsh as the script uses: quotes, functions, case, arithmetic.
  const { code, stderr } = await script('bash -n <(holdfast completion zsh)').ended
  assert.deepEqual([code, stderr], [0, ''])
  const { stdout } = await cli('completion', 'fish')
  const lines = stdout.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  assert.ok(lines.length > 50)
  // In single quotes fish knows \\\\ and \\', and nothing else.
  for (const line of lines) assert.match(line, /^([^'"\\]|"\$current"|'([^'\\]|\\['\\n])*')*$/)
  const count = (word: RegExp) => lines.filter((line) => word.test(line)).length
  assert.equal(count(/^function /), count(/^end$/))
})

test('another shell is refused, and a configuration that is refused offers nothing', async () => {
  const { code, stderr } = await cli('completion', 'zhs')
  assert.equal(code, 64)
  assert.match(stderr, /there is no completion for 'zhs', only for bash, zsh, fish; did you mean 'zsh'\?/)
  const broken = await script('mkdir broken; cd broken; echo "{" > holdfast.json; holdfast completion stores')
    .ended
  assert.deepEqual([broken.code, broken.stdout, broken.stderr], [0, '', ''])
})

after(close)
after(leakCheck)
