import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.plugin.EntryFilter;
import org.apache.pulsar.broker.service.plugin.FilterContext;

/** Puts back each message that has the property `later`. */
public class PutBack implements EntryFilter {
    @Override
    public FilterResult filterEntry(Entry entry, FilterContext context) {
        var metadata = context.getMsgMetadata();
        boolean later = metadata != null
                && metadata.getPropertiesList().stream().anyMatch(each -> each.getKey().equals("later"));
        return later ? FilterResult.RESCHEDULE : FilterResult.ACCEPT;
    }

    @Override
    public void close() {
    }
}
