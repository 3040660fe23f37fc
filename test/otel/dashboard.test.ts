// The dashboard queries the metrics that the example's exporter serves.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import * as api from '@opentelemetry/api'
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { telemetry } from 'holdfast/otel'
import { read } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

interface Dashboard {
  readonly panels: readonly {
    readonly title: string
    readonly targets: readonly { readonly expr: string }[]
  }[]
}

test('every metric and label in the queries of the dashboard is exported', async () => {
  const exporter = new PrometheusExporter({ preventServerStart: true })
  const provider = new MeterProvider({ readers: [exporter] })
  api.metrics.setGlobalMeterProvider(provider)
  const locks = createLocks(memory())
  const { observe, stop } = telemetry(api, { group: () => 'all', spans: false })
  observe(locks)
  await locks.mutex('m').run(() => undefined)
  const { resourceMetrics } = await exporter.collect()
  const text = new PrometheusSerializer().serialize(resourceMetrics)
  const { panels } = JSON.parse(read('examples/grafana-dashboard.json')) as Dashboard
  assert.equal(panels.length, 10)
  const named = new Set(text.match(/^# TYPE (\w+)/gm)?.map((line) => line.replace('# TYPE ', '')))
  const missing = panels.flatMap(({ title, targets }) =>
    targets.flatMap(({ expr }) =>
      [...expr.matchAll(/\bholdfast_(?:\w+)(?=[{[])/g)]
        .map(([name]) => name)
        .filter(
          (name) => !named.has(name.replace(/_bucket$/, '')) && !name.startsWith('holdfast_store_errors'),
        )
        .map((name) => `${title}: ${name}`),
    ),
  )
  assert.deepEqual(missing, [])
  stop()
  await locks.close()
  await provider.shutdown()
  api.metrics.disable()
})
