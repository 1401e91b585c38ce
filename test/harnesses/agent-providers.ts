/** Providers that answer agents: they run the command after `RUN:`, and answer the agents' other requests. */
import type { Answerer, Service } from '../gateway/providers.ts'
import { answerOf, type ModelScript, type Wire } from './agent-model.ts'

const WIRES: Readonly<Record<Service, Wire>> = {
  anthropic: 'anthropic',
  codex: 'responses',
  'code-assist': 'gemini',
  openai: 'responses',
  gemini: 'gemini',
  kimi: 'chat',
  openrouter: 'chat',
}

/** Small requests of the agents, with the answers of the real services. */
const SIDES: readonly (readonly [RegExp, object])[] = [
  [
    /^:loadCodeAssist$/,
    { currentTier: { id: 'standard-tier', name: 'Standard' }, cloudaicompanionProject: 'a-project' },
  ],
  [/^:(?:retrieveUserQuota|listExperiments)$/, {}],
  [/countTokens$/, { totalTokens: 12 }],
  [/count_tokens$/, { input_tokens: 12 }],
  [/^\/models(?:\?|$)/, { models: [] }],
]

/** Gives the same answers, and makes a service fail on demand. */
export class FaultyAnswers {
  readonly #failing = new Map<Service, number>()

  fail(service: Service, status: number | undefined): void {
    if (status === undefined) this.#failing.delete(service)
    else this.#failing.set(service, status)
  }

  readonly answer: Answerer = Object.assign(this.#answer.bind(this), {
    failing: (service: Service) => this.#failing.get(service),
  })

  #answer(service: Service, path: string, body: string): ReturnType<Answerer> {
    const status = this.#failing.get(service)
    if (status === undefined) return agentAnswers(service, path, body)
    const error = {
      type: status === 429 ? 'rate_limit_error' : 'authentication_error',
      message: 'not now',
      code: status,
    }
    return { status, isStream: false, text: JSON.stringify({ type: 'error', error }) }
  }
}

const agentAnswers = createScriptedAnswerer()

/** Returns an answerer that follows the script. Without one, `RUN: command` runs a command. */
export function createScriptedAnswerer(script?: ModelScript): Answerer {
  return (service, path, body) => {
    const side = SIDES.find(([pattern]) => pattern.test(path))
    if (side !== undefined) return { isStream: false, text: JSON.stringify(side[1]) }
    const wire = path === '/chat/completions' ? 'chat' : WIRES[service]
    return answerOf(wire, path, JSON.parse(body), script)
  }
}
