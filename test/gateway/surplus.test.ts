/** More connections from a sandbox than its limit: each one gets an answer, and the log records them. */
import { expect, it } from 'vitest'
import { canBe } from '../sandbox-home.ts'
import { LoginScene, NODE_INSIDE } from './login-scene.ts'

const MOST = 128
const SURPLUS = 12

/**
 * Holds all connections open and sends nothing on them. For refused connections, it prints the answer. A connection
 * that arrives faster than the sidecar can forward it is reset, and the program tries again.
 */
const HOLD = `
const { connect } = require('net')
const { hostname, port } = new URL(process.env.ANTHROPIC_BASE_URL)
let told = 0
const hold = () => {
  const socket = connect(Number(port), hostname)
  socket.setEncoding('utf8').on('error', () => setTimeout(hold, 100)).on('data', (text) => {
    console.log(text.split('\\r\\n')[0])
    if (++told === ${SURPLUS}) process.exit()
  })
}
for (let at = 0; at < ${MOST + SURPLUS}; at++) hold()
`

it('connections beyond the limit of one sandbox get an answer, and receipts count them', async () => {
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' })
  const box = await scene.create()
  const ran = await box.exec([NODE_INSIDE, '-e', HOLD])
  expect(ran).toMatchObject({ code: 0, stdout: 'HTTP/1.1 503 Service Unavailable\n'.repeat(SURPLUS) })
  const surplus = async () => {
    const lines = (await scene.receipts()).split('\n').filter((line) => line.includes('boundary.connections'))
    return lines.map((line) => JSON.parse(line).body)
  }
  const countSurplus = async () => (await surplus()).reduce((sum, { metadata }) => sum + metadata.count, 0)
  await expect.poll(countSurplus, { timeout: 30_000, interval: 200 }).toBeGreaterThanOrEqual(SURPLUS)
  for (const body of await surplus())
    expect(body).toMatchObject({ kind: 'denial', status: 'blocked', links: { sandbox_id: box.id } })
  const reported = await scene.home.run(['sandbox', 'logs', box.id])
  expect(reported.stdout).toContain(`from the sandbox refused: ${MOST} were open`)
  await box.delete()
  const verified = await scene.home.json(['receipts', 'verify', '--replay', '--format', 'json'])
  expect(verified).toMatchObject({ boundaries: { differ: [] }, replay: { differ: [] } })
})
