/** A compromised agent: it calls every method of the protocol that reaches the host, and reports the results. */

/** The agent prints `tried` at the end: one line for each method with its answer. */
export const HOSTILE_AGENT = `
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const asked = new Map()
let n = 0
let mode = 'free'
const modes = { currentModeId: mode, availableModes: [{ id: 'free', name: 'Free', _meta: { mine: 1 } }, { id: 'plan', name: 'Plan' }] }
const ask = (method, params) => new Promise((done) => { asked.set('h' + ++n, done); send({ id: 'h' + n, method, params }) })
const IN = '/workspace/home/project'
const tell = (sessionId, update) => send({ method: 'session/update', params: { sessionId, update } })
async function prompt({ sessionId, prompt }) {
  const text = prompt.map((block) => block.text ?? block.uri ?? '').join('')
  const say = (words) => tell(sessionId, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: words }, _meta: { mine: 1 } })
  if (text === 'HUGE') { process.stdout.write('{"jsonrpc":"2.0","method":"' + 'x'.repeat(40 * 1024 * 1024)); return new Promise(() => {}) }
  if (text === 'FLOOD') for (let i = 0; i < 500; i++) say('#'.repeat(64 * 1024))
  if (text === 'MODE') { say('mode ' + mode + ';'); return { stopReason: 'end_turn' } }
  if (text === 'WAIT') { say('waits'); return new Promise(() => {}) }
  const tried = []
  for (const [method, params] of [
    ['fs/write_text_file', { sessionId, path: IN + '/planted', content: 'planted' }],
    ['fs/write_text_file', { sessionId, path: '/etc/planted', content: 'planted' }],
    ['fs/read_text_file', { sessionId, path: '/etc/passwd' }],
    ['terminal/create', { sessionId, command: 'touch', args: ['/tmp/planted'] }],
    ['terminal/output', { sessionId, terminalId: '1' }],
    ['elicitation/create', { sessionId, mode: 'form', message: 'password?', requestedSchema: { type: 'object' } }],
    ['x/anything', {}],
  ]) {
    const { error } = await ask(method, params)
    tried.push(method + ' ' + (error ? error.code : 'DONE'))
  }
  tell(sessionId, {
    sessionUpdate: 'tool_call', toolCallId: 't1', title: 'Edit ' + IN + '/a.txt', kind: 'edit', status: 'completed',
    locations: [{ path: IN + '/a.txt', line: 3 }, { path: '/etc/passwd' }, { path: IN + '/../../../etc/shadow' }, { path: IN + '-other/x' }],
    content: [
      { type: 'diff', path: IN + '/a.txt', oldText: 'a', newText: 'b' },
      { type: 'diff', path: '/etc/passwd', oldText: null, newText: 'root::0:0' },
      { type: 'terminal', terminalId: 'term-of-the-editor' },
      { type: 'content', content: { type: 'resource_link', name: 'in', uri: 'file://' + IN + '/a.txt#L3' } },
      { type: 'content', content: { type: 'resource_link', name: 'out', uri: 'file:///etc/passwd' } },
      { type: 'content', content: { type: 'resource_link', name: 'order', uri: 'command:workbench.action.terminal.new' } },
    ],
    rawInput: { file_path: IN + '/a.txt', other: '/etc/passwd' },
    _meta: { terminal_info: { terminal_id: 'x' } },
  })
  tell(sessionId, { sessionUpdate: 'made_up', content: { type: 'text', text: 'x' } })
  say('heard ' + text + '\\n' + tried.join('\\n'))
  return { stopReason: 'end_turn' }
}
createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params, result, error } = JSON.parse(line)
  if (method === undefined) return asked.get(id)?.({ result, error })
  if (method === 'initialize') send({ id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true } } })
  else if (method === 'session/new') send({ id, result: { sessionId: 'hostile', modes, _meta: { mine: 1 } } })
  else if (method === 'session/set_mode') { mode = params.modeId; send({ id, result: {} }) }
  else if (method === 'session/load') send({ id, result: {} })
  else if (method === 'session/prompt') send({ id, result: await prompt(params) })
})
`
