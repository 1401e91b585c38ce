/** The nouns that can follow `craik`. Craik loads the file of a noun only when the user names it. */
import type { NounBuilder } from './context.ts'

export interface Noun {
  readonly name: string
  readonly summary: string
  /** The example in the noun's own help. Verbs have their own examples. */
  readonly example?: string
  /** Its heading in `craik help --all`. */
  readonly group: string
  /** Its heading in `craik --help`, which lists only the commands that people use first. */
  readonly startGroup?: string
  readonly load: () => Promise<NounBuilder>
}

const LOGIN_SANDBOX = 'Your login sandbox (bin/sandbox.sh COMMAND does the same):'
const AGENTS = 'Agents and runs:'
const SANDBOXES = 'Sandboxes:'
const CONTROL = 'Permissions and receipts:'
const MODELS = 'Logins, models and budgets:'
const CRAIK = 'Craik itself:'

const WORK = 'Work with agents:'
const CHECK = 'Limit and verify what agents do:'
const SET_UP = 'Set up this machine:'

export const NOUNS: readonly Noun[] = [
  {
    name: 'up',
    summary: 'start your sandbox, with your agents and their logins',
    group: LOGIN_SANDBOX,
    startGroup: WORK,
    load: async () => (await import('./login-sandbox/up.ts')).upCommand,
  },
  {
    name: 'down',
    summary: 'save conversations to ~/inbox, stop the sandbox of craik up',
    group: LOGIN_SANDBOX,
    startGroup: WORK,
    load: async () => (await import('./login-sandbox/down.ts')).downCommand,
  },
  {
    name: 'enter',
    summary: 'open another terminal in the sandbox of craik up',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/enter.ts')).enterCommand,
  },
  {
    name: 'exec',
    summary: 'run a command in the sandbox of craik up',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/exec.ts')).execLoginSandboxCommand,
  },
  {
    name: 'run-headless',
    summary: 'run a command in the sandbox of craik up; save its output',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/run-headless.ts')).runHeadlessCommand,
  },
  {
    name: 'status',
    summary: 'list the login sandboxes',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/status.ts')).statusCommand,
  },
  {
    name: 'list',
    summary: 'do the same as status',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/status.ts')).listLoginSandboxesCommand,
  },
  {
    name: 'inspect',
    summary: 'show the sandbox of craik up, its volumes and its profile',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/status.ts')).inspectCommand,
  },
  {
    name: 'save',
    summary: 'save the conversations of login sandboxes to ~/inbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/save.ts')).saveCommand,
  },
  {
    name: 'rebuild',
    summary: 'recreate the sandbox of craik up; its volumes are kept',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/rebuild.ts')).rebuildCommand,
  },
  {
    name: 'verify-llm-auth',
    summary: 'send a test prompt to each agent that has a login',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/verify.ts')).verifyLoginsCommand,
  },
  {
    name: 'test-repo',
    summary: 'run the tests of a repository in the sandbox of craik up',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/test-repo.ts')).testRepoCommand,
  },
  {
    name: 'prune',
    summary: 'list stopped login sandboxes; --delete removes them',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/prune.ts')).pruneLoginSandboxCommand,
  },
  {
    name: 'nuke',
    summary: 'remove the sandbox of craik up and its volumes',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/nuke.ts')).nukeCommand,
  },
  {
    name: 'profile-new',
    summary: 'create a profile: settings for a login sandbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/profiles.ts')).profileNewCommand,
  },
  {
    name: 'profile-list',
    summary: 'list the profiles of login sandboxes',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/profiles.ts')).profileListCommand,
  },
  {
    name: 'prompt',
    summary: 'give an agent, such as Claude Code, a task in a sandbox',
    group: AGENTS,
    startGroup: WORK,
    load: async () => (await import('./prompt.ts')).promptCommand,
  },
  {
    name: 'run',
    summary: 'list, show, apply, resume and cancel runs of agents',
    example: 'craik run list --prompts',
    group: AGENTS,
    startGroup: WORK,
    load: async () => (await import('./run.ts')).runNounCommand,
  },
  {
    name: 'acp',
    summary: 'serve an agent to an editor (Agent Client Protocol)',
    group: AGENTS,
    load: async () => (await import('./acp.ts')).acpCommand,
  },
  {
    name: 'agent',
    summary: 'launch, prompt and stop sessions of Craik’s own agent',
    example: 'craik agent launch --provider-id provider_openai',
    group: AGENTS,
    load: async () => (await import('./agent.ts')).agentCommand,
  },
  {
    name: 'session',
    summary: 'list, show and export sessions of Craik’s own agent',
    example: 'craik session list',
    group: AGENTS,
    load: async () => (await import('./session.ts')).sessionCommand,
  },
  {
    name: 'handoff',
    summary: 'list and show handoffs, the reports of runs',
    example: 'craik handoff list',
    group: AGENTS,
    load: async () => (await import('./handoff.ts')).handoffCommand,
  },
  {
    name: 'transcripts',
    summary: 'list, show, search and save conversations with agents',
    example: 'craik transcripts export --sandbox parser',
    group: AGENTS,
    load: async () => (await import('./transcripts.ts')).transcriptsCommand,
  },
  {
    name: 'harness',
    summary: 'list, install and prune harnesses, the programs of agents',
    example: 'craik harness list',
    group: AGENTS,
    load: async () => (await import('./harness.ts')).harnessCommand,
  },
  {
    name: 'demo',
    summary: 'show Craik at work on a repository of yours, offline',
    example: 'craik demo persistent-agent --repo-path .',
    group: AGENTS,
    load: async () => (await import('./demo.ts')).demoCommand,
  },
  {
    name: 'sandbox',
    summary: 'create and delete sandboxes, run commands, copy files',
    example: 'craik sandbox create --name parser --workspace .',
    group: SANDBOXES,
    startGroup: WORK,
    load: async () => (await import('./sandbox.ts')).sandboxCommand,
  },
  {
    name: 'snapshot',
    summary: 'list, show, export, import and delete snapshots of disks',
    example: 'craik snapshot export parser-before parser.tar',
    group: SANDBOXES,
    load: async () => (await import('./snapshot.ts')).snapshotCommand,
  },
  {
    name: 'volume',
    summary: 'list and delete volumes, folders that outlive a sandbox',
    example: 'craik volume list',
    group: SANDBOXES,
    load: async () => (await import('./volume.ts')).volumeCommand,
  },
  {
    name: 'image',
    summary: 'build, list, show and prune container images',
    example: 'craik image build --apt jq,ripgrep',
    group: SANDBOXES,
    load: async () => (await import('./image.ts')).imageCommand,
  },
  {
    name: 'egress',
    summary: 'allow or block hosts for sandboxes; list and test rules',
    example: 'craik egress allow --preset npm --sandbox parser',
    group: CONTROL,
    startGroup: CHECK,
    load: async () => (await import('./egress.ts')).egressCommand,
  },
  {
    name: 'receipts',
    summary: 'list, show, verify and export the receipts of decisions',
    example: 'craik receipts list --since 24h',
    group: CONTROL,
    startGroup: CHECK,
    load: async () => (await import('./receipts.ts')).receiptsCommand,
  },
  {
    name: 'policy',
    summary: 'show or test a policy profile; check a policy file',
    example: 'craik policy show --profile automation',
    group: CONTROL,
    load: async () => (await import('./policy.ts')).policyCommand,
  },
  {
    name: 'grant',
    summary: 'allow an action that policy denies without a grant',
    example:
      'craik grant create --capability shell.test --operation run \\\n    --target unit-tests --task-id fix-parser',
    group: CONTROL,
    load: async () => (await import('./grant.ts')).grantCommand,
  },
  {
    name: 'shell',
    summary: 'run a command on this machine, with a signed receipt',
    group: CONTROL,
    load: async () => (await import('./shell.ts')).shellCommand,
  },
  {
    name: 'accounts',
    summary: 'list the logins (Claude, GitHub, …) that sandboxes can use',
    group: MODELS,
    startGroup: SET_UP,
    load: async () => (await import('./accounts.ts')).accountsCommand,
  },
  {
    name: 'budget',
    summary: 'limit and show what model calls cost',
    example: 'craik budget set --provider provider_openai --limit 2usd --per day',
    group: MODELS,
    startGroup: CHECK,
    load: async () => (await import('./budget.ts')).budgetCommand,
  },
  {
    name: 'quota',
    summary: 'limit model calls per minute and at the same time',
    example: 'craik quota set --provider provider_openai --requests-per-minute 60',
    group: MODELS,
    load: async () => (await import('./quota.ts')).quotaCommand,
  },
  {
    name: 'provider',
    summary: 'list, show, select, check and enable model providers',
    example: 'craik provider list --format table',
    group: MODELS,
    load: async () => (await import('./provider.ts')).providerCommand,
  },
  {
    name: 'gateway',
    summary: 'let programs outside sandboxes use your logins',
    group: MODELS,
    load: async () => (await import('./gateway.ts')).gatewayCommand,
  },
  {
    name: 'secret',
    summary: 'store API keys encrypted, or record where they are',
    example: 'craik secret bind OPENAI_API_KEY --env OPENAI_API_KEY',
    group: MODELS,
    load: async () => (await import('./secret.ts')).secretCommand,
  },
  {
    name: 'command',
    summary: 'register command lines that agents may run by name',
    example: 'craik command register openai-key -- pass show openai',
    group: MODELS,
    load: async () => (await import('./command.ts')).commandCommand,
  },
  {
    name: 'doctor',
    summary: 'check this machine and show how to fix what is missing',
    group: CRAIK,
    startGroup: SET_UP,
    load: async () => (await import('./doctor.ts')).doctorCommand,
  },
  {
    name: 'supervisor',
    summary: 'show or stop Craik’s background process, print its log',
    example: 'craik supervisor status',
    group: CRAIK,
    load: async () => (await import('./supervisor.ts')).supervisorCommand,
  },
  {
    name: 'login',
    summary: 'set the user that receipts name; not the login of an agent',
    group: CRAIK,
    load: async () => (await import('./login.ts')).loginCommand,
  },
  {
    name: 'logout',
    summary: 'undo craik login',
    group: CRAIK,
    load: async () => (await import('./login.ts')).logoutCommand,
  },
  {
    name: 'whoami',
    summary: 'show the user in whose name commands run',
    group: CRAIK,
    load: async () => (await import('./login.ts')).whoamiCommand,
  },
]
