// Every program of docs/start.md that says what it prints, prints it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { stop, transform } from 'esbuild'
import { read, root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'
import { parseFences } from '../support/markdown.js'
import { startMysql } from '../support/servers/mysql.js'
import { freePort } from '../support/servers/ports.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'

const servers = {
  REDIS_URL: startRedis,
  POSTGRES_URL: startPostgres,
  MYSQL_URL: () => startMysql({ flavour: 'mariadb' }),
} as const

const fences = parseFences(read('docs/start.md'))
const programs = fences.flatMap(({ language, code, line }, at) => {
  const next = fences[at + 1]
  return language === 'ts' && next?.language === 'text' ? [{ line, code, prints: next.code }] : []
})

mkdirSync(join(root, 'build'), { recursive: true })
const folder = mkdtempSync(join(root, 'build/start-'))

test('every program of the page says what it prints', () => {
  assert.ok(programs.length > 10)
  assert.equal(programs.length, fences.filter(({ language }) => language === 'ts').length)
})

/** What a program prints, with what it needs. */
async function run(name: string, code: string): Promise<{ status: unknown; out: string; errors: string }> {
  const needed = (Object.keys(servers) as (keyof typeof servers)[]).find((name) => code.includes(name))
  await using server = needed && (await servers[needed]())
  const file = join(folder, `${name}.mjs`)
  writeFileSync(file, (await transform(code, { loader: 'ts', target: 'node20' })).code)
  const home = mkdtempSync(join(folder, 'home-'))
  const env = { ...process.env, HOLDFAST_DIR: home, ...(needed && server && { [needed]: server.url }) }
  const child = spawn(process.execPath, [file], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let [out, errors] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const status = await new Promise((resolve) => child.once('close', resolve))
  return { status, out: out.trimEnd(), errors }
}

for (const { line, code, prints } of programs) {
  test(`the program on line ${line} of docs/start.md prints what it says`, async () => {
    assert.deepEqual(await run(`line-${line}`, code), { status: 0, out: prints, errors: '' })
  })
}

for (const framework of ['express', 'fastify', 'hono']) {
  test(`the program for ${framework} answers 503, without details, when its locks cannot be used`, async () => {
    const { code = '' } = programs.find((program) => program.code.includes(`from '${framework}'`)) ?? {}
    const made = 'const locks = createLocks(local())\n'
    assert.ok(code.includes(made))
    const closed = code.replace(made, `${made}await locks.close()\n`)
    const ported = closed.replaceAll('3010', String(await freePort()))
    const printed = "503 { error: 'these locks are closed' }"
    assert.deepEqual(await run(framework, ported), { status: 0, out: printed, errors: '' })
  })
}

after(async () => {
  rmSync(folder, { recursive: true })
  await stop()
})
after(leakCheck)
