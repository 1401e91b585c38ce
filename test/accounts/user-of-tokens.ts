/** Uses a login in a separate process: calls the API again and again, and reports each result to its parent. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'

export interface Instructions {
  readonly role: 'broker' | 'broker-apart' | 'program'
  readonly craikHome: string
  readonly userHome: string
  readonly tokenUrl: string
  readonly apiUrl: string
  readonly authority: string
}

/** A call that succeeded, or one that failed. */
export type Report = { readonly round: number } | { readonly failure: string }

export interface TokenUser {
  token(): Promise<string>
  /** Returns another token after a 401. `undefined` when none is available. */
  getNewerToken(refused: string): Promise<string | undefined>
}

export function readInstructions(): Instructions {
  return JSON.parse(readFileSync(process.argv[2]!, 'utf8'))
}

export async function callForEver({ apiUrl, authority }: Instructions, user: TokenUser): Promise<never> {
  const agent = new Agent({ connect: { ca: authority } })
  const call = async (token: string) => {
    const { statusCode, body } = await request(apiUrl, {
      dispatcher: agent,
      headers: { authorization: `Bearer ${token}` },
    })
    return { statusCode, round: ((await body.json()) as { round: number }).round }
  }
  process.on('disconnect', () => process.exit(0))
  for (;;) {
    try {
      const token = await user.token()
      let answer = await call(token)
      if (answer.statusCode === 401) {
        const next = await user.getNewerToken(token)
        if (next !== undefined) answer = await call(next)
      }
      tell(answer.statusCode === 200 ? { round: answer.round } : { failure: `status ${answer.statusCode}` })
    } catch (error) {
      tell({ failure: String(error) })
    }
    await sleep(15)
  }
}

function tell(report: Report): void {
  if (process.connected) process.send!(report)
}
