/** Checks a local model server, and allows or stops live calls to it. */
import { Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { loadProviders } from '../../providers/load-providers.ts'
import type { LocalHealth } from '../../providers/local/local-health.ts'
import { findLocalPreset, type LocalPreset } from '../../providers/local/local-presets.ts'
import type { ProviderSettingRow } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { formatOption, JSON_FIRST_HELP, printable, printRecord } from '../output.ts'

const MAX_TIMEOUT_SECONDS = 60

interface HealthOptions {
  readonly baseUrl?: string
  readonly timeoutSeconds: string
  readonly format?: string
}

interface EnableOptions extends HealthOptions {
  readonly model?: string
}

export function localHealthCommand(context: CliContext): Command {
  return new Command('local-health')
    .description('show whether a local model server answers, and list its models')
    .argument('<preset>', 'preset (ollama, lm-studio, vllm or openai-compatible), or id of a local provider')
    .addOption(baseUrlOption())
    .addOption(timeoutOption())
    .addOption(formatOption(JSON_FIRST_HELP))
    .addHelpText(
      'after',
      '\nExit code: 0 even if the server does not answer. Read the status instead.\n\nExample:\n  craik provider local-health ollama --format table\n',
    )
    .action(async (name: string, options: HealthOptions) => {
      const { checkLocalHealth } = await import('../../providers/local/local-health.ts')
      const { preset, setting, question } = await prepare(context, name, options)
      const health = await checkLocalHealth(preset, question)
      const moved = setting !== undefined && setting.baseUrl !== health.base_url
      const warning = `live calls go to ${setting?.baseUrl}; enable it again to move them here`
      const result = moved ? { ...health, warnings: [...health.warnings, warning] } : health
      printRecord(context, { format: options.format ?? 'json' }, { ...result }, () =>
        describe(result, nextStep(result, setting, options)),
      )
    })
}

export function enableCommand(context: CliContext): Command {
  return new Command('enable')
    .description('allow calls to a local model server; fails unless the server lists its models')
    .argument('<preset>', 'preset (ollama, lm-studio, vllm or openai-compatible), or id of a local provider')
    .addOption(baseUrlOption())
    .option('--model <name>', 'model for calls (default: the configured one, or the server’s first)')
    .addOption(timeoutOption())
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik provider enable ollama --model llama3.2\n')
    .action(async (name: string, options: EnableOptions) => {
      const [{ enableProvider }, { chooseModel }] = await Promise.all([
        import('../../providers/local/enable.ts'),
        import('../../providers/local/local-address.ts'),
      ])
      const { preset, question } = await prepare(context, name, options)
      const { setting, health, receipt } = await enableProvider(
        await context.store(),
        await context.log(),
        preset,
        {
          ...question,
          operator: await context.operator(),
          model: options.model,
          wantedModel: chooseModel(preset, context.environment),
        },
      )
      printRecord(context, options, settingJson(setting, receipt.id, health), () =>
        [
          `  enabled  ${setting.providerId} → ${setting.baseUrl}, model ${printable(setting.model)}\n`,
          `  receipt  ${receipt.id}\n`,
          `    undo:  craik provider disable ${preset.id}\n`,
        ].join(''),
      )
    })
}

export function disableCommand(context: CliContext): Command {
  return new Command('disable')
    .description('stop calls to a local model server')
    .argument('<preset>', 'preset (ollama, lm-studio, vllm or openai-compatible), or id of a local provider')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik provider disable ollama\n')
    .action(async (name: string, options: { readonly format?: string }) => {
      const { disableProvider } = await import('../../providers/provider-settings.ts')
      const preset = await findPreset(context, name)
      const { setting, receipt } = await disableProvider(
        await context.store(),
        await context.operator(),
        preset.provider_id,
      )
      printRecord(
        context,
        options,
        settingJson(setting, receipt.id),
        () => `  disabled  ${setting.providerId}\n  receipt   ${receipt.id}\n`,
      )
    })
}

async function prepare(context: CliContext, name: string, options: HealthOptions) {
  const [{ localBaseUrl }, { findEnabledSetting }] = await Promise.all([
    import('../../providers/local/local-address.ts'),
    import('../../providers/provider-settings.ts'),
  ])
  const preset = await findPreset(context, name)
  const timeoutMs = parseTimeout(options.timeoutSeconds)
  const setting = await findEnabledSetting(context.home, context.store, preset.provider_id)
  const baseUrl = localBaseUrl(preset, {
    baseUrl: options.baseUrl,
    environment: context.environment,
    setting,
  })
  return { preset, setting, question: { baseUrl, timeoutMs, signal: context.signal, clock: context.clock } }
}

/** Reads the user's own records only for a name that is not a preset. */
async function findPreset(context: CliContext, name: string): Promise<LocalPreset> {
  return findLocalPreset(name, name.startsWith('provider_') ? await loadProviders(context.home) : [])
}

function baseUrlOption(): Option {
  return new Option(
    '--base-url <url>',
    'server URL: localhost, 127.0.0.1 or [::1] (default: the environment variable of the preset, then the saved URL, then that of the preset)',
  )
}

function timeoutOption(): Option {
  return new Option('--timeout-seconds <n>', 'time limit for the whole answer').default('2.0')
}

function parseTimeout(text: string): number {
  const seconds = /^\d{1,2}(?:\.\d{1,3})?$/.test(text) ? Number(text) : 0
  if (seconds > 0 && seconds <= MAX_TIMEOUT_SECONDS) return Math.round(seconds * 1000)
  throw new CraikError(
    'usage',
    `--timeout-seconds must be a number above 0 and up to ${MAX_TIMEOUT_SECONDS}`,
    {
      hint: 'use a value such as 2 or 0.5',
    },
  )
}

function settingJson(setting: ProviderSettingRow, receiptId: string, health?: LocalHealth): Json {
  return {
    provider_id: setting.providerId,
    enabled: setting.enabled,
    base_url: setting.baseUrl,
    model: setting.model,
    receipt_id: receiptId,
    ...(health && { health: { ...health } }),
  }
}

/** Returns the next step for a server that answers. */
function nextStep(
  { status, preset_id, base_url }: LocalHealth,
  setting: ProviderSettingRow | undefined,
  { baseUrl }: HealthOptions,
): string {
  if (status !== 'ok') return ''
  if (setting?.baseUrl === base_url)
    return `  enabled  live calls go here, model ${printable(setting.model)}\n`
  return `  use it:  craik provider enable ${preset_id}${baseUrl === undefined ? '' : ` --base-url ${base_url}`}\n`
}

function describe(health: LocalHealth, next: string): string {
  const { preset_id, base_url, status, detail } = health
  const models = health.models.map((model) => `    ${printable(model)}\n`)
  const warnings = health.warnings.map((warning) => `  warning  ${printable(warning)}\n`)
  const title = `  ${status === 'ok' ? '✓' : '✗'} ${preset_id} at ${base_url}: ${status}: ${detail}\n`
  return title + models.join('') + warnings.join('') + next
}
