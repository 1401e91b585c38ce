/** What an agent CLI is to Craik: which login serves it, how it is set up for the gateway, and what speaks for it. */

export const HARNESS_NAMES = ['claude-code', 'codex', 'gemini', 'opencode', 'kimi', 'fixture'] as const
export type HarnessName = (typeof HARNESS_NAMES)[number]

/** A login of the host that a sandbox has a stand-in for. */
export interface HarnessLogin {
  readonly family: 'anthropic' | 'openai' | 'gemini' | 'openrouter' | 'kimi'
  readonly kind: 'oauth' | 'api_key'
}

/** Where it runs, as it is to be told. */
export interface HarnessContext {
  /** The gateway, as programs inside reach it: no slash at its end. */
  readonly gateway: string
  /** Undefined: it needs none. */
  readonly login: HarnessLogin | undefined
  /** As the harness names it; undefined: its own default. */
  readonly model: string | undefined
  /** Whether what the project brings along is started unasked: its servers, hooks and plugins, and the leave that it gives itself. */
  readonly trustsProject: boolean
}

/** What a session is begun and taken up with. */
export interface SessionTerms {
  /** As the agent's own extension of the protocol names it. */
  readonly meta?: Readonly<Record<string, unknown>>
  /** Which of its modes it is to be in. */
  readonly modeId?: string
}

/** Of the home inside. It is put there when nothing is, or when what is there was put there by us. */
interface SettingFile {
  /** Relative to the home. */
  readonly path: string
  readonly content: string
}

export interface Harness {
  readonly name: HarnessName
  /** As its makers call it. */
  readonly title: string
  /** What it can work with, best first. Empty: it asks no model. */
  readonly logins: readonly HarnessLogin[]
  /** What a person types on the host to log in. */
  readonly logIn: string
  /** The secret that takes the place of a login. */
  readonly keyName: string | undefined
  /** What speaks the Agent Client Protocol on its standard input and output, inside. */
  agent(harnessContext: HarnessContext): readonly [string, ...string[]]
  session?(harnessContext: HarnessContext): SessionTerms
  /** Of a project: what it would start also where the project is not trusted. Then it is not started itself. */
  readonly startsAnyway?: readonly string[]
  /** What is run inside before a session is taken up again. */
  beforeResume?(sessionId: string): readonly [string, ...string[]]
  environment(harnessContext: HarnessContext): Readonly<Record<string, string>>
  settings(harnessContext: HarnessContext): readonly SettingFile[]
}

/** The one of those that the sandbox has which serves it best. */
export function loginFor(
  harness: Harness,
  logins: readonly { readonly family: string; readonly kind: HarnessLogin['kind'] }[],
): HarnessLogin | undefined {
  return harness.logins.find((wanted) =>
    logins.some(({ family, kind }) => family === wanted.family && kind === wanted.kind),
  )
}

/** Every text that we would put at a path, whatever the login, with the model or none: what equals one of them is ours to replace. */
export function ownContents(
  harness: Harness,
  harnessContext: Omit<HarnessContext, 'login'>,
  path: string,
): Set<string> {
  const logins = [undefined, ...harness.logins]
  const places = logins.flatMap((login) => [
    { ...harnessContext, login },
    { ...harnessContext, login, model: undefined },
  ])
  const files = places.flatMap((each) => harness.settings(each))
  return new Set(files.flatMap((file) => (file.path === path ? [file.content] : [])))
}
