/**
 * Metrics of locks for Prometheus: the OpenTelemetry SDK serves /metrics, and Prometheus scrapes it. `grafana-dashboard.json` beside
 * this file draws what it exports.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as api from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { telemetry } from 'holdfast/otel'

// Without its own server: an application already has one. With one it listens on port 9464.
const exporter = new PrometheusExporter({ preventServerStart: true })
const server = createServer((request, response) => exporter.getMetricsRequestHandler(request, response))
await once(server.listen(0, '127.0.0.1'), 'listening')
const provider = new MeterProvider({ readers: [exporter] })
api.metrics.setGlobalMeterProvider(provider)

const locks = createLocks(memory())
telemetry(api, { group: (name) => name.split(':')[0] ?? name, spans: false }).observe(locks)

await Promise.all(
  [1, 2, 3].map((id) =>
    locks.mutex(`account:${id % 2}`).run(() => new Promise((resolve) => setTimeout(resolve, 5))),
  ),
)
const held = await locks.mutex('cron:nightly').acquire()

const { port } = server.address() as AddressInfo
const text = await (
  await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { connection: 'close' } })
).text()
assert.match(text, /holdfast_held\{.*holdfast_lock_group="cron".*\} 1/)
assert.match(
  text,
  /holdfast_acquisitions_total\{.*holdfast_lock_group="account".*holdfast_outcome="granted".*\} 3/,
)
console.log(
  text
    .split('\n')
    .filter((line) => /^holdfast_\w+/.test(line))
    .join('\n'),
)

await held.release()
await locks.close()
await provider.shutdown()
server.close()
