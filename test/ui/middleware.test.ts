// The page below /locks in the servers that people use: its files, its stream, a forced release.
import '../support/background.js'
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, describe, test } from 'node:test'
import { type INestApplication, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import fastify from 'fastify'
import { createLocks, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { type LockPage, lockPage } from 'holdfast/ui'
import { Hono } from 'hono'
import type { Init, Tick } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'
import { listening, type Served, send, serving, stream } from './support.js'

const locks: Locks = createLocks(memory())
after(() => locks.close())

const servers: Readonly<Record<string, (page: LockPage) => Promise<Served>>> = {
  'node:http': (page) => serving(page.node),
  Express: async (page) => {
    const app = express()
    app.use(express.json())
    app.use('/locks', page.node)
    app.get('/own', (_request, response) => void response.send('own'))
    return await listening(createServer(app))
  },
  Fastify: async (page) => {
    const app = fastify()
    await app.register(page.fastify, { prefix: '/locks' })
    app.post('/own', async (request) => ({ body: request.body }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    const url = app.listeningOrigin
    const end = async () => {
      app.server.closeAllConnections()
      await app.close()
    }
    return { port: Number(new URL(url).port), url, close: end }
  },
  Nest: async (page) => {
    class App {}
    Module({})(App)
    const app: INestApplication = await NestFactory.create(App, { logger: false })
    app.use('/locks', page.node)
    await app.listen(0, '127.0.0.1')
    const url = await app.getUrl()
    const end = async () => {
      ;(app.getHttpServer() as ReturnType<typeof createServer>).closeAllConnections()
      await app.close()
    }
    return { port: Number(new URL(url).port), url, close: end }
  },
}

for (const [name, start] of Object.entries(servers))
  describe(`in ${name}`, () => {
    test('the page, its stream and a forced release work below /locks', async () => {
      const page = lockPage({
        stores: { main: locks },
        path: '/locks',
        interval: 20,
        allowRelease: true,
        onRelease: () => undefined,
      })
      const served = await start(page)
      const at = `${served.url}/locks`
      try {
        assert.match((await send(at)).body, /<script type="module" src=".\/locks\/page.js">/)
        assert.match((await send(`${at}/`)).body, /<script type="module" src="page.js">/)
        assert.match(String((await send(`${at}/page.js`)).headers['content-type']), /^text\/javascript/)
        assert.equal((await send(`${served.url}/locksmith/`)).status, 404)
        const lease = await locks.mutex(name).acquire()
        {
          await using events = await stream(`${at}/events`)
          const { key } = await events.next<Init>('init')
          await events.next<Tick>('tick', ({ changed }) => changed.some((entry) => entry.name === name))
          assert.equal(page.viewers, 1)
          const headers = { 'x-holdfast-key': key, 'content-type': 'application/json' }
          const body = JSON.stringify({ store: 'main', name, tokens: [lease.token], why: 'stuck' })
          const reply = await send(`${at}/release`, { method: 'POST', headers, body })
          assert.deepEqual([reply.status, reply.body], [200, '{"outcome":"forced"}'])
          const tick = await events.next<Tick>('tick', ({ past }) => past.some((hold) => hold.name === name))
          assert.deepEqual(
            tick.past.map(({ end, why }) => [end, why]),
            [['forced', 'stuck']],
          )
        }
        await lease.release()
      } finally {
        page.close()
        await served.close()
      }
    })
  })

test('Fastify parses bodies outside of the page as before', async () => {
  const page = lockPage({ stores: { main: locks } })
  const served = await (servers['Fastify'] as (page: LockPage) => Promise<Served>)(page)
  try {
    const headers = { 'content-type': 'application/json' }
    const reply = await send(`${served.url}/own`, { method: 'POST', headers, body: '{"a":1}' })
    assert.equal(reply.body, '{"body":{"a":1}}')
  } finally {
    await served.close()
  }
})

test('in Hono, the page and its stream work below /locks', async () => {
  const page = lockPage({ stores: { main: locks }, path: '/locks', interval: 20 })
  const app = new Hono()
  app.all('/locks', (context) => page.fetch(context.req.raw))
  app.all('/locks/*', (context) => page.fetch(context.req.raw))
  const ask = (path: string, headers: Record<string, string> = { host: 'localhost' }) =>
    app.request(`http://localhost${path}`, { headers })
  assert.match(await (await ask('/locks')).text(), /locks\/page\.js/)
  assert.match(await (await ask('/locks/')).text(), /page\.js/)
  assert.equal((await ask('/locks/', { host: 'evil.example' })).status, 403)
  const { body } = await ask('/locks/events')
  const reader = body?.getReader()
  const { value } = (await reader?.read()) ?? {}
  assert.match(Buffer.from(value ?? []).toString(), /^event: init\n/)
  assert.equal(page.viewers, 1)
  await reader?.cancel()
  assert.equal(page.viewers, 0)
  page.close()
})

/** Servers that redirect every address to the form of their own, as Next.js does without and with `trailingSlash`. */
const forms: Readonly<Record<string, (path: string) => string>> = {
  'without a slash at the end': (path) => path.replace(/(?<=.)\/$/, ''),
  'with a slash at the end': (path) => (/\.\w+$|\/$/.test(path) ? path : `${path}/`),
}

for (const [form, own] of Object.entries(forms))
  test(`behind a server that redirects to addresses ${form}, a browser finds the page, its files, its stream and its release`, async () => {
    const token = 'a-token-of-the-test-suite'
    const page = lockPage({ stores: { main: locks }, path: '/locks', token, allowRelease: true })
    const served = await serving((request, response) => {
      const { pathname, search } = new URL(request.url ?? '/', 'http://localhost')
      const wanted = own(pathname)
      if (wanted === pathname) return page.node(request, response)
      response.writeHead(308, { location: wanted + search }).end()
    })
    let cookie = ''
    /** Follows redirects, as a browser does, but only so many of them. */
    const visit = async (address: string, method = 'GET') => {
      let at = address
      for (let hops = 0; hops < 5; hops++) {
        const reply = await send(at, { method, headers: { cookie } })
        const [given] = reply.headers['set-cookie'] ?? []
        if (given !== undefined) cookie = given.replace(/;.*/, '')
        if (reply.headers.location === undefined) return { ...reply, at }
        at = new URL(reply.headers.location, at).href
      }
      throw new Error(`${address} leads round in circles`)
    }
    try {
      for (const start of ['/locks', '/locks/']) {
        const { status, body, at } = await visit(`${served.url}${start}?token=${token}`)
        assert.deepEqual([status, new URL(at).pathname], [200, own('/locks/')])
        const files = [...body.matchAll(/(?:href|src)="([^"]*)"/g)].map(
          ([, file = '']) => new URL(file, at).href,
        )
        assert.equal(files.length, 3)
        for (const file of files) assert.equal((await visit(file)).status, 200, file)
        const script = files.find((file) => file.endsWith('.js')) ?? ''
        // It has no key: the page has answered, and not a place beside it.
        assert.equal((await visit(new URL('release', script).href, 'POST')).status, 403)
        const events = await visit(new URL('events', script).href, 'POST')
        assert.deepEqual([events.status, events.headers.allow], [405, 'GET'])
      }
    } finally {
      page.close()
      await served.close()
    }
  })

test('what a route has put into the address of the page cannot become markup', async () => {
  const page = lockPage({ stores: { main: locks }, path: '/&quot;"<b>' })
  const { body } = await serving(page.node).then(async (served) => {
    try {
      return await send(`${served.url}/&quot;%22%3Cb%3E`)
    } finally {
      await served.close()
    }
  })
  assert.match(body, / src=".\/&amp;quot;%22%3Cb%3E\/page\.js"/)
  page.close()
})

after(leakCheck)
