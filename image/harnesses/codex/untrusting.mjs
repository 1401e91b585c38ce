/**
 * Stands between the adapter, which has Codex trust the folder of every session, and Codex, and has it trust none: then Codex leaves
 * alone what a project has in `.codex`, with its servers, hooks and rules. Everything else passes as it is.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const UNTRUSTED = { trust_level: 'untrusted' }
const HERE = process.cwd()
/** Of whatever is asked for no session, and of a session that nothing is said of. */
const ALWAYS = `projects={${JSON.stringify(HERE)}={trust_level="untrusted"}}`
const NEWLINE = 10

const codex = spawn(process.env.CODEX_ITSELF, [...process.argv.slice(2), '-c', ALWAYS], {
  stdio: ['pipe', 'inherit', 'inherit'],
})
codex.once('error', () => process.exit(127))
codex.once('exit', (code) => process.exit(code ?? 1))
// It has ended, and that is told.
codex.stdin.on('error', () => {})
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => codex.kill(signal))

let begun = []
for await (const chunk of process.stdin) {
  let from = 0
  for (let to = chunk.indexOf(NEWLINE); to !== -1; to = chunk.indexOf(NEWLINE, from)) {
    await pass(Buffer.concat([...begun, chunk.subarray(from, to)]))
    begun = []
    from = to + 1
  }
  begun.push(chunk.subarray(from))
}
codex.stdin.end()

/** A line of the protocol is one message. */
async function pass(line) {
  const message = JSON.parse(line.toString())
  const said = /^thread\/(?:start|resume|fork)$/.test(message.method)
    ? JSON.stringify(untrusting(message))
    : line
  codex.stdin.write(said)
  if (!codex.stdin.write('\n')) await once(codex.stdin, 'drain')
}

function untrusting({ params = {}, ...message }) {
  const folders = [HERE, ...Object.keys(params.config?.projects ?? {})]
  const projects = Object.fromEntries(folders.map((folder) => [folder, UNTRUSTED]))
  return { ...message, params: { ...params, config: { ...params.config, projects } } }
}
