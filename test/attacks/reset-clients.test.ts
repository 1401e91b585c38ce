/**
 * A program in a sandbox that resets its connection in the middle of a large answer does not make the sandbox unusable.
 */
import { expect, it } from 'vitest'
import { LoginScene, NODE_INSIDE } from '../gateway/login-scene.ts'
import { canBe } from '../sandbox-home.ts'

/**
 * Three were enough for a failure: Node counts 32 MB for the session, and never subtracts the bytes that a cancelled
 * stream still had to write.
 */
const RESETS = 4
const LARGE = JSON.stringify({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  stop_reason: 'end_turn',
  content: [{ type: 'text', text: 'a long answer '.repeat(1_200_000) }],
  usage: { input_tokens: 1, output_tokens: 1 },
})

/** Reads the beginning of an answer and resets the connection, as happens when a program is killed. */
const GUEST = `
const { hostname, port } = new URL(process.env.ANTHROPIC_BASE_URL)
const body = JSON.stringify({ model: 'claude-x', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] })
const head = ['POST /v1/messages HTTP/1.1', 'host: x', 'content-type: application/json', 'anthropic-version: 2023-06-01']
const request = [...head, 'content-length: ' + body.length, '', body].join('\\r\\n')
const ask = () => new Promise((done) => {
  const socket = require('node:net').connect(port, hostname, () => socket.write(request))
  socket.once('data', (data) => {
    console.log(data.toString().slice(0, 12))
    socket.pause()
    setTimeout(() => socket.resetAndDestroy(), 100)
  })
  socket.on('error', () => {}).once('close', done)
})
const askAll = async () => { for (let at = 0; at < ${RESETS}; at++) await ask() }
askAll()
`

it('a sandbox still accepts commands after resets in the middle of large answers', async () => {
  const answer = () => ({ isStream: false, text: LARGE })
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' }, undefined, answer)
  scene.logIn('claude')
  const box = await scene.create()
  const guest = await box.exec([NODE_INSIDE, '-e', GUEST])
  expect(guest).toMatchObject({ code: 0, stderr: '', stdout: 'HTTP/1.1 200\n'.repeat(RESETS) })
  expect(await box.exec(['echo', 'still here'])).toMatchObject({ code: 0, stdout: 'still here\n' })
})
