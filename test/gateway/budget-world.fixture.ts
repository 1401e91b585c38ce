/** Budgets in dollars under load. A server of the tests has Anthropic’s own address, whose prices Craik has. */
import { createServer, request } from 'node:https'
import { selfSigned } from '../wire/certificate.ts'
import { type FireReport, overloadBudget } from './budget-fire.ts'
import { LoginScene } from './login-scene.ts'
import { startNameServer } from './name-server.ts'
import { PUBLIC } from './world.ts'

const HOST = 'api.anthropic.com'

export type DollarReport = FireReport

async function main(): Promise<DollarReport> {
  const certificate = selfSigned(['127.0.0.1'], [HOST])
  const names = await startNameServer({ [HOST]: [[PUBLIC]] })
  await using scene = await LoginScene.open({ identity: 'root' }, certificate)
  scene.configureAccounts({ 'secret/ANTHROPIC_API_KEY': { base_url: `https://${HOST}/v1` } })
  await scene.setKey('ANTHROPIC_API_KEY', 'anthropic')
  const { origin, pathname } = new URL(scene.providers.bases.anthropic)
  const server = createServer({ ...certificate }, (requested, response) => {
    const path = `${pathname}${requested.url?.slice('/v1'.length)}`
    const { method, headers } = requested
    const passed = request(origin + path, { method: method!, headers, ca: certificate.cert }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    requested.pipe(passed)
  })
  await new Promise<void>((listening) => server.listen(443, PUBLIC, listening))
  const report = await overloadBudget(scene, 'nano_usd')
  server.closeAllConnections()
  server.close()
  names.close()
  return report
}

if (import.meta.main) process.stdout.write(JSON.stringify(await main()))
