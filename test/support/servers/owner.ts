// Run as a process or as a worker thread of its own: starts servers, says which, and waits to be killed.
import { parentPort } from 'node:worker_threads'
import { startMany } from './redis.js'

const { servers } = await startMany(2)
const started = { pids: servers.map(({ pid }) => pid), folders: servers.map(({ folder }) => folder) }
if (parentPort) parentPort.postMessage(started)
else process.stdout.write(`${JSON.stringify(started)}\n`)
setInterval(() => {}, 1000)
