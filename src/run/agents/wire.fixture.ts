/** Sessions whose model answers from a script, over a real wire format. */
import { startChatCompletions } from '../../../test/wire/chat-completions.ts'
import { type Act, frame } from '../../../test/wire/wire-server.ts'
import { type AgentScene, OLLAMA } from './agents.fixture.ts'

/** Returns an answer that requests one command. */
export const call = (command_ref: unknown, name = 'run_command'): Act => ({
  kind: 'tool_call',
  name,
  arguments: { command_ref },
})

export const say = (text: string): Act => ({ kind: 'text', text })

/** Returns an answer that requests several commands. */
export function calls(...refs: readonly string[]): Act {
  const tool_calls = refs.map((command_ref, index) => ({
    index,
    id: `call_${index}`,
    type: 'function',
    function: { name: 'run_command', arguments: JSON.stringify({ command_ref }) },
  }))
  const chunk = (choices: readonly unknown[], more: object = {}) =>
    frame({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })
  const body = [
    chunk([{ index: 0, delta: { role: 'assistant', content: '', tool_calls }, finish_reason: null }]),
    chunk([{ index: 0, delta: {}, finish_reason: 'tool_calls' }]),
    chunk([], { usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } }),
    frame('[DONE]'),
  ]
  return { kind: 'raw', body: body.join('') }
}

export async function live(scene: AgentScene, script: readonly Act[]) {
  const server = await startChatCompletions(script, { key: false })
  await scene.enable(server.baseUrl)
  const id = await scene.launch({ providerId: OLLAMA })
  return { server, id }
}
