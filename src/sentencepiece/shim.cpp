/* sentencepiece/shim.cpp - libsentencepiece behind plain C.
 *
 * Every entry catches what C++ may throw and turns it into a status. Results leave through a sink,
 * so that no C++ container and no foreign allocation crosses the border. */
#include "sentencepiece/sentencepiece.h"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <sentencepiece_processor.h>

struct ft_spm {
    sentencepiece::SentencePieceProcessor processor;
};

namespace {

/* The first line of a library message, which may have several. */
ft_status fail(ft_error *err, ft_status status, const char *what, const char *reason)
{
    std::string_view line(reason);
    line = line.substr(0, line.find('\n'));
    return ft_fail(err, status, "sentencepiece: %s: %.*s", what, static_cast<int>(line.size()),
                   line.data());
}

/* Runs body, which returns a status, and turns exceptions into one. */
template <typename Body> ft_status guard(const char *what, ft_error *err, Body body)
{
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return ft_fail(err, FT_NOMEM, "sentencepiece: %s: out of memory", what);
    } catch (const std::exception &e) {
        return fail(err, FT_FORMAT, what, e.what());
    } catch (...) {
        return ft_fail(err, FT_FORMAT, "sentencepiece: %s: unknown failure", what);
    }
}

} // namespace

ft_status ft_spm_load(ft_spm **out, const void *bytes, int64_t size, ft_error *err)
{
    *out = nullptr;
    return guard("load", err, [&] {
        auto spm = std::make_unique<ft_spm>();
        std::string_view model(static_cast<const char *>(bytes), static_cast<size_t>(size));
        auto status = spm->processor.LoadFromSerializedProto(model);
        if (!status.ok()) return fail(err, FT_FORMAT, "load", status.error_message());
        *out = spm.release();
        return FT_OK;
    });
}

void ft_spm_free(ft_spm *spm)
{
    delete spm;
}

int ft_spm_size(const ft_spm *spm)
{
    return spm->processor.GetPieceSize();
}

const char *ft_spm_piece(const ft_spm *spm, int id)
{
    return spm->processor.IdToPiece(id).c_str();
}

int32_t ft_spm_find(const ft_spm *spm, const char *piece, int64_t size)
{
    const auto &processor = spm->processor;
    std::string_view text(piece, static_cast<size_t>(size));
    int id = processor.PieceToId(text);
    bool found = id >= 0 && id < processor.GetPieceSize() && processor.IdToPiece(id) == text;
    return found ? id : FT_NO_ID;
}

bool ft_spm_is_special(const ft_spm *spm, int32_t id)
{
    return spm->processor.IsControl(id) || spm->processor.IsUnknown(id);
}

ft_status ft_spm_encode(const ft_spm *spm, const char *text, int64_t size, ft_ids_sink *sink,
                        void *context, ft_error *err)
{
    return guard("encode", err, [&] {
        std::vector<int> ids;
        auto status =
            spm->processor.Encode(std::string_view(text, static_cast<size_t>(size)), &ids);
        if (!status.ok()) return fail(err, FT_FORMAT, "encode", status.error_message());
        if (!sink(context, ids.data(), static_cast<int64_t>(ids.size())))
            return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %lld ids",
                           static_cast<long long>(ids.size()));
        return FT_OK;
    });
}

ft_status ft_spm_decode(const ft_spm *spm, const int32_t *ids, int64_t n, ft_text_sink *sink,
                        void *context, ft_error *err)
{
    return guard("decode", err, [&] {
        std::string text;
        auto status = spm->processor.Decode(std::vector<int>(ids, ids + n), &text);
        if (!status.ok()) return fail(err, FT_FORMAT, "decode", status.error_message());
        if (!sink(context, text.data(), static_cast<int64_t>(text.size())))
            return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %lld bytes of text",
                           static_cast<long long>(text.size()));
        return FT_OK;
    });
}
